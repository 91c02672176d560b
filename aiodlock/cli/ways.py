"""Ways to sell: everybody at once, one at a time, one in each segment, or from stock on the server.

With locks and without, the work is the same: read the stock, wait for the database, write back one less. What differs
is who may do it at the same time. The last way has its stock on the server of the locks, and needs none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aiodlock._core.stock import Taken
from aiodlock.cli.sale import Terms, Way
from aiodlock.client import LockClient
from aiodlock.inventory.locked import LockedSale
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.locks.lock import Lock
from aiodlock.locks.segmented import SegmentedLock, SegmentHold

__all__ = ["Tally", "ways_of"]

_MEMORY = 600.0  # seconds that the stock knows its orders: longer than any sale here


class Tally:
    """The stock, in segments, as a database keeps it: what was read may be old when it is written back."""

    def __init__(self, stock: int, *, segments: int, work: float) -> None:
        self._work = work
        self.left = [stock // segments + (segment < stock % segments) for segment in range(segments)]

    async def sell(self, segment: int) -> bool:
        """Sell one, unless there was none left when we looked: that nothing is left is seen at once."""
        left = self.left[segment]
        if left == 0:
            return False
        await asyncio.sleep(self._work)
        self.left[segment] = left - 1
        return True


class _FromTally:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def left(self) -> Sequence[int]:
        return self._tally.left


class _NoLock(_FromTally):
    """Everybody at once."""

    name = "no lock"

    async def buy(self, buyer: str) -> tuple[bool, float]:
        return await self._tally.sell(0), 0.0


class _OneLock(_FromTally):
    """One at a time."""

    name = "one lock"

    def __init__(self, tally: Tally, lock: Lock) -> None:
        super().__init__(tally)
        self._lock = lock

    async def buy(self, buyer: str) -> tuple[bool, float]:
        asked = time.perf_counter()
        async with self._lock:
            waited = time.perf_counter() - asked
            return await self._tally.sell(0), waited


class _Segmented(_FromTally):
    """One at a time in each segment. A buyer whose segment is sold out looks in others."""

    def __init__(self, tally: Tally, hot: SegmentedLock) -> None:
        super().__init__(tally)
        self.name = f"{hot.segments} segments"
        self._sale = LockedSale(hot)

    async def buy(self, buyer: str) -> tuple[bool, float]:
        asked, waited = time.perf_counter(), 0.0

        async def sell(hold: SegmentHold) -> bool:
            nonlocal asked, waited
            waited += time.perf_counter() - asked
            sold = await self._tally.sell(hold.segment)
            asked = time.perf_counter()
            return sold

        return await self._sale.buy(buyer, sell), waited


class _Stock:
    """No lock: every order is one decision of the server, and many of them one call."""

    name = "stock"

    def __init__(self, stock: SegmentedStock, quantity: int) -> None:
        self._stock = stock
        self._quantity = quantity

    async def open(self) -> None:
        await self._stock.load(self._quantity)

    async def buy(self, buyer: str) -> tuple[bool, float]:
        asked = time.perf_counter()
        sale = await self._stock.take(buyer=buyer, order=f"{buyer}/1")
        return isinstance(sale, Taken), time.perf_counter() - asked

    async def left(self) -> Sequence[int]:
        return (await self._stock.remaining()).segments

    async def close(self) -> None:
        await self._stock.close()


def ways_of(terms: Terms, locks: LockClient, *, key: str) -> list[Way]:
    """Return every way of selling under these terms, each with a tally of its own."""

    def tally(segments: int) -> Tally:
        return Tally(terms.stock, segments=segments, work=terms.work)

    ways: list[Way] = [
        _NoLock(tally(1)),
        _OneLock(tally(1), locks.lock(key)),
        _Segmented(tally(terms.segments), locks.segmented(key, segments=terms.segments)),
    ]
    if locks.backend.capabilities.stock:
        ways.append(_Stock(locks.stock(key, segments=terms.segments, memory=_MEMORY), terms.stock))
    return ways
