"""A flash sale (秒杀): a crowd of buyers, one article, and a way to sell it. Nothing here needs a terminal."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiodlock.cli.course import Course, Diary, bin_of

__all__ = ["Outcome", "Run", "Terms", "Way", "jain", "quantile"]

_LOOK_EVERY = 0.05


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
    course: Course


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

    async def left(self) -> Sequence[int]:
        """Return what each segment has left."""
        ...


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
        diary = Diary()
        await self._look(diary)
        self._opened = self._last_order = time.perf_counter()
        lanes = [asyncio.create_task(self._lane(lane, buyers)) for lane in range(len(self._orders))]
        watching = asyncio.create_task(self._watch(diary))
        try:
            await asyncio.gather(*lanes)
            await self._look(diary)
        finally:
            for task in (watching, *lanes):
                task.cancel()
            await asyncio.wait((watching, *lanes))
            watching.cancelled() or watching.exception()  # a server that is away has failed the lanes as well
            await self.way.close()
        return self._outcome(diary)

    async def _lane(self, lane: int, buyers: Iterator[str]) -> None:
        for buyer in buyers:
            sold, waited = await self.way.buy(buyer)
            self.served += 1
            if sold:
                self._waits.append(waited)
                self._orders[lane] += 1
                self._last_order = time.perf_counter()

    async def _watch(self, diary: Diary) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            await self._look(diary)

    async def _look(self, diary: Diary) -> None:
        left = await self.way.left()
        diary.look(sum(self._orders), left)

    def _outcome(self, diary: Diary) -> Outcome:
        sold, stock = sum(self._orders), self.terms.stock
        seconds = self._last_order - self._opened
        diary.waited(Counter(map(bin_of, self._waits)))
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
            course=diary.course(),
        )


def jain(counts: Sequence[int]) -> float:
    """Return Jain's index: 1 when all got the same, 1/n when one of n got everything."""
    total = sum(counts)
    return total * total / (len(counts) * sum(count * count for count in counts)) if total else 1.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of the values do not exceed; of nothing it is 0."""
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else 0.0
