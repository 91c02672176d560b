"""aiodlock, on every backend and in every way of using it: ``aiodlock-<backend>[-<variant>]``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.peers.base import LEASE, Entry, Peer, Role

__all__ = ["PEERS"]


class _Aiodlock:
    def __init__(self, url: str, **policy: object) -> None:
        self._url, self._policy = url, policy
        self._client: Any = None
        self._locks: dict[str, Entry] = {}  # one object for all tasks

    async def open(self) -> None:
        self._client = importlib.import_module("aiodlock").connect(self._url)
        await self._client.start()

    def lock(self, key: str) -> Entry:
        if key not in self._locks:
            self._locks[key] = self._client.lock(key, ttl=LEASE, **self._policy)
        return self._locks[key]


class _Nowait(_Aiodlock):
    """Leaves by ``release_nowait``: the server is told in the background."""

    def lock(self, key: str) -> Entry:
        return _LeftNowait(super().lock(key))


class _LeftNowait:
    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._hold: Any = None

    async def __aenter__(self) -> object:
        self._hold = await self._lock.acquire()
        return self._hold

    async def __aexit__(self, *exc: object) -> None:
        self._hold.release_nowait()


class _Run(_Aiodlock):
    """Hands plain functions to ``run``: many tasks' functions in one loop step."""

    async def run(self, key: str, section: Callable[[], None]) -> None:
        lock: Any = self.lock(key)
        await lock.run(section)


_SERVERS: Mapping[str, str | None] = {
    "memory": None,
    "redis": "redis",
    "mysql": "mysql",
    "zookeeper": "zookeeper",
}  # backend: what it needs started

_SENDS = {"mysql": frozenset({"question"}), "zookeeper": frozenset({"packet"})}  # as its observer calls them

_VARIANTS: Mapping[str, tuple[Callable[[str], _Aiodlock], str]] = {
    "": (_Aiodlock, "defaults"),
    "-fair": (partial(_Aiodlock, fair=True), "fair=True: a ticket per waiter, strict order"),
    "-nowait": (_Nowait, "left by release_nowait()"),
    "-linger": (partial(_Aiodlock, linger=5.0), "linger=5: an unwanted ticket is kept"),
    "-run": (_Run, "run(fn)"),
}


def _peer(backend: str, variant: str) -> Peer:
    make, note = _VARIANTS[variant]
    server = _SERVERS[backend]
    # run() takes plain functions, so there is nothing to sleep in and nothing to release at a given moment.
    only = frozenset({"U1", "U100", "U1000", "C100", "C1000", "M"}) if variant == "-run" else None
    return Peer(
        f"aiodlock-{backend}{variant}",
        make if server else lambda _: make(f"{backend}://"),
        note=note,
        server=server,
        shared=server is not None,
        runs=variant == "-run",
        only=only,
        sends=_SENDS.get(server or "", frozenset()),
        role=Role.OURS,
    )


PEERS = tuple(_peer(backend, variant) for backend in _SERVERS for variant in _VARIANTS)
