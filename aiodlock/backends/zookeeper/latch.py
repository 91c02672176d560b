"""Latches: one node each, with what is left, who counted, and until when it lives.

The server ends no node by itself that belongs to nobody, so its end stands in it and whoever comes later obeys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from aiodlock._core.line import Call, LineId, Opened
from aiodlock.backends.zookeeper.paths import path_of
from aiodlock.backends.zookeeper.tree import BadVersion, NoNode, NotEmpty, OnEvent, Tree
from aiodlock.errors import BackendDataError

__all__ = ["Latches"]

_TRIES = 1_000  # against others who count at the same time: each of them succeeds once in such a round
_LARGEST = 900_000  # bytes; a server takes no more than a mebibyte
_SWEPT = 100  # latches that one call looks at, to remove those that have ended


@dataclass(frozen=True, slots=True)
class _Latch:
    left: int
    ends: float  # by the server's clock
    operations: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> _Latch:
        try:
            told = json.loads(data)
            return cls(told["left"], told["ends"], tuple(told["operations"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BackendDataError(f"not a latch: {data[:100]!r}") from error

    def counted(self, down: int, operation: str) -> _Latch:
        if not down or not self.left or operation in self.operations:
            return self
        return replace(self, left=max(0, self.left - down), operations=(*self.operations, operation))

    def kept(self, now: float, ttl: float) -> _Latch:
        """Live ttl from now. A little more is written, so that not every look of every client has to."""
        return self if self.ends >= now + ttl else replace(self, ends=now + 1.25 * ttl)


class Latches:
    """The latches of one client."""

    def __init__(
        self, tree: Tree, push: Callable[[Call], None], own: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self._tree = tree
        self._push = push
        self._own = own
        self._watches: dict[LineId, OnEvent] = {}

    async def count(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> int:
        """Make, count and watch the latch; return what is left."""
        path = path_of(self._tree.session.address.root, line)
        watch = self._watches.setdefault(line, partial(self._changed, line))
        await self._tree.session.sync()
        for _ in range(_TRIES):
            now = await self._tree.server_now()
            try:
                data, stat = await self._tree.get(path, watch)
            except NoNode:
                await self._sweep(path.rpartition("/")[0], now)
                await self._tree.make(path, _Latch(count, now + ttl).encode())
                continue
            found = _Latch.decode(data)
            latch = found if found.ends > now else _Latch(count, now + ttl)
            latch = latch.counted(down, operation).kept(now, ttl)
            if latch == found or await self._write(path, latch, stat.version):
                if not latch.left:
                    self._opened(line, tell=down > 0)
                return latch.left
        raise BackendDataError(f"{path}: changes faster than it can be counted")

    async def _write(self, path: str, latch: _Latch, version: int) -> bool:
        data = latch.encode()
        if len(data) > _LARGEST:
            raise BackendDataError(f"{path}: too many steps for one latch on ZooKeeper, count by larger ones")
        try:
            await self._tree.change(self._tree.setting(path, data, version))
        except (BadVersion, NoNode):
            return False
        return True

    def _changed(self, line: LineId, path: str, is_gone: bool) -> None:
        self._own(self._look(line))

    async def _look(self, line: LineId) -> None:
        if (watch := self._watches.get(line)) is None:
            return
        try:
            data, _ = await self._tree.get(path_of(self._tree.session.address.root, line), watch)
        except NoNode:
            self._forget(line)
            return
        if not _Latch.decode(data).left:
            self._opened(line, tell=True)

    def _opened(self, line: LineId, *, tell: bool) -> None:
        self._forget(line)
        if tell:
            self._push(Opened(line, via=self._tree.session.via))

    def _forget(self, line: LineId) -> None:
        """Watch one no more that is open, or gone: nothing more comes of it."""
        if (watch := self._watches.pop(line, None)) is not None:
            self._tree.ignore(path_of(self._tree.session.address.root, line), watch)

    async def _sweep(self, parent: str, now: float) -> None:
        """Remove some that have ended, for those who will never ask for them again."""
        try:
            for name in (await self._tree.children(parent))[:_SWEPT]:
                data, stat = await self._tree.get(f"{parent}/{name}")
                if _Latch.decode(data).ends < now - 60.0:
                    await self._tree.change(self._tree.deletion(f"{parent}/{name}", stat.version))
        except (NoNode, BadVersion, NotEmpty):
            pass  # somebody else sweeps
