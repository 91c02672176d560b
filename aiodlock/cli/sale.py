"""A flash sale (秒杀): a crowd of buyers, one article, and several ways to sell it. Nothing here needs a terminal.

With locks and without, the work is the same: read the stock, wait for the database, write back one less. What differs
is who may do it at the same time. The last way has its stock on the server of the locks, and needs none.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiodlock._core.stock import Taken
from aiodlock.client import LockClient
from aiodlock.inventory.locked import LockedSale
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.locks.lock import Lock
from aiodlock.locks.segmented import SegmentedLock, SegmentHold

__all__ = ["Outcome", "Run", "Shelf", "Terms", "Way", "jain", "quantile", "ways_of"]


_MEMORY = 600.0  # seconds that the stock knows its orders: longer than any sale here


@dataclass(frozen=True, slots=True)
class Terms:
    """What is sold, to how many, and how many of them at a time."""

    stock: int
    buyers: int
    concurrency: int
    segments: int
    work: float  # seconds that the database takes between reading and writing
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one way did, from the opening to the last order; waits are those of who got one, for a turn."""

    way: str
    seconds: float
    orders_per_second: float
    wait_p50: float
    wait_p99: float
    sold: int
    oversold: int
    unsold: int  # could have been sold and was not
    fairness: float  # Jain's index of the orders that each of the concurrent lanes got


class Shelf:
    """The stock, in segments, as a database keeps it: what was read may be old when it is written back."""

    def __init__(self, stock: int, *, segments: int, work: float) -> None:
        self._work = work
        self.left = [stock // segments + (segment < stock % segments) for segment in range(segments)]

    async def sell(self, segment: int) -> bool:
        """Sell one, unless there was none left when we looked: an empty shelf is seen at once."""
        left = self.left[segment]
        if left == 0:
            return False
        await asyncio.sleep(self._work)
        self.left[segment] = left - 1
        return True


class Way(Protocol):
    """One way of selling."""

    @property
    def name(self) -> str: ...

    async def open(self) -> None:
        """Put the stock up for sale."""
        ...

    async def close(self) -> None:
        """Leave nothing behind."""
        ...

    async def buy(self, buyer: str) -> tuple[bool, float]:
        """Return whether *buyer* got one, and the seconds waited for a turn."""
        ...


class _Way:
    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


class _NoLock(_Way):
    """Everybody at once."""

    name = "no lock"

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def buy(self, buyer: str) -> tuple[bool, float]:
        return await self._shelf.sell(0), 0.0


class _OneLock(_Way):
    """One at a time."""

    name = "one lock"

    def __init__(self, shelf: Shelf, lock: Lock) -> None:
        self._shelf = shelf
        self._lock = lock

    async def buy(self, buyer: str) -> tuple[bool, float]:
        asked = time.perf_counter()
        async with self._lock:
            waited = time.perf_counter() - asked
            return await self._shelf.sell(0), waited


class _Segmented(_Way):
    """One at a time in each segment. A buyer whose segment is sold out looks in others."""

    def __init__(self, shelf: Shelf, hot: SegmentedLock) -> None:
        self.name = f"{hot.segments} segments"
        self._shelf = shelf
        self._sale = LockedSale(hot)

    async def buy(self, buyer: str) -> tuple[bool, float]:
        asked, waited = time.perf_counter(), 0.0

        async def sell(hold: SegmentHold) -> bool:
            nonlocal asked, waited
            waited += time.perf_counter() - asked
            sold = await self._shelf.sell(hold.segment)
            asked = time.perf_counter()
            return sold

        return await self._sale.buy(buyer, sell), waited


class _Stock(_Way):
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

    async def close(self) -> None:
        await self._stock.close()


def ways_of(terms: Terms, locks: LockClient, *, key: str) -> list[Way]:
    """Return every way of selling under these terms, each with a shelf of its own."""

    def shelf(segments: int) -> Shelf:
        return Shelf(terms.stock, segments=segments, work=terms.work)

    ways: list[Way] = [
        _NoLock(shelf(1)),
        _OneLock(shelf(1), locks.lock(key)),
        _Segmented(shelf(terms.segments), locks.segmented(key, segments=terms.segments)),
    ]
    if locks.backend.capabilities.stock:
        ways.append(_Stock(locks.stock(key, segments=terms.segments, memory=_MEMORY), terms.stock))
    return ways


class Run:
    """One sale in one way; `served` grows while it goes on."""

    def __init__(self, terms: Terms, way: Way) -> None:
        self.terms = terms
        self.way = way
        self.served = 0
        self._opened = self._last_order = 0.0
        self._waits: list[float] = []
        self._orders = [0] * min(terms.concurrency, terms.buyers)  # by lane

    async def sell(self) -> Outcome:
        """Let all buyers in, as many at a time as the terms say.

        Cancellation: the lanes end, and with them every hold.
        """
        dice = random.Random(self.terms.seed)
        buyers = (f"buyer-{dice.getrandbits(64):x}" for _ in range(self.terms.buyers))
        await self.way.open()
        self._opened = self._last_order = time.perf_counter()
        lanes = [asyncio.create_task(self._lane(lane, buyers)) for lane in range(len(self._orders))]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.wait(lanes)
            await self.way.close()
        return self._outcome()

    async def _lane(self, lane: int, buyers: Iterator[str]) -> None:
        for buyer in buyers:
            sold, waited = await self.way.buy(buyer)
            self.served += 1
            if sold:
                self._waits.append(waited)
                self._orders[lane] += 1
                self._last_order = time.perf_counter()

    def _outcome(self) -> Outcome:
        sold, stock = sum(self._orders), self.terms.stock
        seconds = self._last_order - self._opened
        return Outcome(
            way=self.way.name,
            seconds=seconds,
            orders_per_second=sold / seconds if sold else 0.0,
            wait_p50=quantile(self._waits, 0.5),
            wait_p99=quantile(self._waits, 0.99),
            sold=sold,
            oversold=max(0, sold - stock),
            unsold=max(0, min(stock, self.terms.buyers) - sold),
            fairness=jain(self._orders),
        )


def jain(counts: Sequence[int]) -> float:
    """Return Jain's index: 1 when all got the same, 1/n when one of n got everything."""
    total = sum(counts)
    return total * total / (len(counts) * sum(count * count for count in counts)) if total else 1.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of the values do not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]
