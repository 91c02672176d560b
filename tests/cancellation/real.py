"""The stage of one run on real servers: they take the time they take, and are asked what is left."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

from aiodlock._core.line import LineId, Row, Ticket
from aiodlock.client import LockClient
from tests.cancellation import remains
from tests.cancellation.kinds import KEY, Kind
from tests.cancellation.stage import TTL, Stage

__all__ = ["Connect", "RealStage"]

Connect: TypeAlias = "Callable[[str, str], LockClient]"
"""Makes a client of some name, with lines of its own under some prefix."""

_SOON = 10.0  # seconds within which neighbours end on a busy machine
_WITHIN = 3.0  # and within which nothing of ours is left, long before anything ends by itself
_LOOKS = 60
_runs = itertools.count(1)


class RealStage(Stage):
    """Everything one run needs, on servers that *connect* leads to, with lines that no other run has."""

    def __init__(self, kind: Kind, policy: Mapping[str, Any], *, connect: Connect) -> None:
        self._prefix = f"swept-{next(_runs)}"
        self._connect = connect
        super().__init__(kind, policy)

    def new_client(self) -> LockClient:
        return self._connect("ours", self._prefix)

    def new_neighbour(self) -> LockClient:
        return self._connect("other", self._prefix)

    def lose(self) -> None:
        self.allow_overlap()
        self.neighbour(self._take_away(), is_ours=False)

    def open_latch(self) -> None:
        self.neighbour(self._count_down(), is_ours=False)

    async def settle(self, *, soon: float, within: float) -> None:
        await asyncio.gather(*self._planned)
        await self._see_neighbours_off(_SOON)
        for _ in range(_LOOKS):
            if not (left := await self._kept()):
                break
            await asyncio.sleep(_WITHIN / _LOOKS)
        self.faults += left
        try:
            async with asyncio.timeout(_WITHIN):
                await (await self.other_lock().acquire()).release()
        except TimeoutError:
            self.faults.append("another client cannot take the lock")

    async def close(self) -> None:
        await self.locks.aclose()
        await self.other.aclose()
        self.faults += remains.tasks()

    async def _kept(self) -> list[str]:
        """Say what of ours is still there."""
        left = [f"orphan: {'inside' if row.inside else 'waiting'} {row.key}" async for row in self._rows()]
        if (engine := self.locks._engine) is not None:
            left += remains.of_engine(engine, self.kind.keeps)
        return left + await self._wrong_stock()

    async def _rows(self) -> AsyncIterator[Row]:
        """Yield our tickets, without those that stay on purpose."""
        async for row in self.other.inspect("*"):
            if row.owner == "ours" and row.kind not in self.kind.keeps:
                yield row

    async def _wrong_stock(self) -> list[str]:
        if self._stock is None:
            return []
        await self._stock.put_back(buyer="bob", order="o-2")
        audit = await self._stock.audit()
        orphans = [f"orphan: {audit.orders} are kept by orders"] if audit.orders else []
        return orphans if audit.is_balanced else [f"books: {audit}", *orphans]

    async def _take_away(self) -> None:
        async for row in self._rows():
            if row.inside:
                await self.other.backend.leave(Ticket.of(LineId(row.kind, row.key), row.id, ttl=TTL))

    async def _count_down(self) -> None:
        await self.other.latch(KEY, count=1, ttl=TTL).count_down()
