"""Two locks that are wrong on purpose, so that the columns which must expose them can be seen to do so.

Both stand on ``flock``, which excludes tasks and processes alike and needs no server.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
from pathlib import Path

from benchmarks.peers.base import Peer, Role

__all__ = ["PEERS"]

_EAGER, _LAZY = 0.0005, 0.05  # seconds between tries
_LETS_IN = 0.05  # the share of entries that the unsafe lock does not ask for


class _File:
    """A lock file, tried for again and again."""

    def __init__(self, path: Path, *, pause: float) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR)
        self._pause = pause

    async def __aenter__(self) -> object:
        while not self._try():  # noqa: ASYNC110 - a lock file wakes nobody
            await asyncio.sleep(self._pause)
        return self

    async def __aexit__(self, *exc: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class _Leaky(_File):
    def __init__(self, path: Path) -> None:
        super().__init__(path, pause=_EAGER)

    async def __aenter__(self) -> object:
        return self if random.random() < _LETS_IN else await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__()
        await asyncio.sleep(self._pause)  # its only fault is to be that it leaks: whoever leaves lets the others try


class _Unfair:
    """The first process to come is the favourite: it tries a hundred times as often as the others, and whoever of its
    tasks releases takes the lock again before anybody else can look."""

    def __init__(self, url: str) -> None:
        self._folder = Path(url)
        self._pause = _LAZY

    async def open(self) -> None:
        try:
            (self._folder / "favourite").touch(exist_ok=False)
        except FileExistsError:
            return
        self._pause = _EAGER

    def lock(self, key: str) -> _File:
        return _File(self._folder / key, pause=self._pause)


class _Unsafe:
    """Lets two in now and then."""

    def __init__(self, url: str) -> None:
        self._folder = Path(url)

    async def open(self) -> None:
        pass

    def lock(self, key: str) -> _File:
        return _Leaky(self._folder / key)


PEERS = (
    Peer("unfair", _Unfair, note="wrong on purpose: prefers one process", server=None, role=Role.CROOKED),
    Peer("unsafe", _Unsafe, note="wrong on purpose: lets two in now and then", server=None, role=Role.CROOKED),
)
