"""A sale in several processes, from take to row, and what becomes of it when they are killed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from aiodlock._core.stock import Audit, Taken
from aiodlock.cli.chaos import Chaos, Connection, Machine, Victim
from aiodlock.cli.company import Company
from aiodlock.cli.course import Course, Diary
from aiodlock.cli.part import Part
from aiodlock.cli.parts import Sale, order_of
from aiodlock.client import connect
from aiodlock.errors import BackendError
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.testing.servers import Server

__all__ = ["Pipeline", "Result"]

_SETTLED_WITHIN = 90.0
_LOOK_EVERY = 0.1
_MOST_ASKED = 5_000  # at once


@dataclass(frozen=True, slots=True)
class Result:
    """How a sale went, from the opening to the last row."""

    seconds: float
    orders_per_second: float
    lag: float  # seconds from the last take to the last row
    accepted: int
    left: int
    rows: int
    oversold: int
    killed: dict[str, int]
    is_balanced: bool
    course: Course


class Pipeline:
    """All parts of one sale; with *chaos* they are killed while it runs, and *redis* with them if there is one."""

    def __init__(self, sale: Sale, *, chaos: bool, seed: int, redis: Server | None = None) -> None:
        self.sale = sale
        self._shops = [Part("shop", sale, number) for number in range(sale.shops)]
        self._relay, self._writer = Part("relay", sale), Part("writer", sale)
        self._killed: Counter[str] = Counter()
        self._rows = 0
        self._diary = Diary()
        self._chaos = Chaos(self._victims(redis) if chaos else (), seed=seed, told=self._note)

    @property
    def served(self) -> int:
        """How many buyers the shops have served."""
        return sum(shop.facts.get("served", 0) for shop in self._shops)

    async def run(self) -> Result:
        """Open the sale, serve everybody, wait for the last row, and count.

        Cancellation: every process is killed; the sale stays open.
        """
        await self._prepare()
        async with connect(self.sale.backend) as locks:
            stock = self.sale.stock_of(locks)
            await stock.load(self.sale.stock)
            self._diary = Diary()
            began = time.perf_counter()
            async with Company(self._relay.run(), self._writer.run(), self._chaos.run()) as company:
                async with Company(self._watch(stock)):
                    await company.unless_it_fails(asyncio.gather(*(shop.run() for shop in self._shops)))
                sold = time.perf_counter()
                await company.unless_it_fails(self._settle(stock))
                landed = time.perf_counter()
            audit = await stock.audit()
            await stock.close()
            is_told_right = await self._accepted(stock) == await self._written()
        return self._result(audit, is_told_right, seconds=landed - began, lag=landed - sold)

    async def _prepare(self) -> None:
        """Make the topics, and see that the database is there: who writes to it would try again without an end."""
        from aiodlock.inventory.orders.database import Database
        from aiodlock.inventory.orders.topics import make_topics

        async with Database(self.sale.into):
            await make_topics(self.sale.orders, self.sale.topic, f"{self.sale.topic}.dead-letters")

    async def _watch(self, stock: SegmentedStock) -> None:
        while True:
            await self._look(stock)
            await asyncio.sleep(_LOOK_EVERY)

    async def _settle(self, stock: SegmentedStock) -> None:
        """Wait until each order that was accepted has its row, and whoever has to be killed was."""
        until = time.perf_counter() + _SETTLED_WITHIN
        await self._look(stock)
        while (self._rows < self._expected or self._chaos.is_due) and time.perf_counter() < until:
            await asyncio.sleep(_LOOK_EVERY)
            await self._look(stock)

    async def _look(self, stock: SegmentedStock) -> None:
        from aiodlock.inventory.orders import OrderWriter

        left = (await stock.remaining()).segments
        counter = OrderWriter(self.sale.orders, self.sale.into, topic=self.sale.topic)
        with suppress(BackendError):  # the next look may see more
            self._rows = (await counter.rows(self.sale.key)).orders
        self._diary.look(self.sale.stock - sum(left), left, rows=self._rows)

    async def _accepted(self, stock: SegmentedStock) -> set[str]:
        """Ask the closed stock for the order of each buyer: it answers for those that it knows, and takes nothing."""
        accepted: set[str] = set()
        for start in range(0, self.sale.buyers, _MOST_ASKED):
            some = range(self.sale.buyers)[start : start + _MOST_ASKED]
            sales = await asyncio.gather(*(self.sale.buy(stock, buyer) for buyer in some))
            accepted.update(order_of(buyer) for buyer, sale in zip(some, sales, strict=True) if isinstance(sale, Taken))
        return accepted

    async def _written(self) -> set[str]:
        """Return the orders that have a row."""
        from aiodlock.inventory.orders.database import Database

        async with Database(self.sale.into) as database:
            ask = "SELECT order_id FROM aiodlock_orders WHERE stock = %s AND state < 4"
            return {bytes(order).decode() for (order,) in await database.query(ask, (self.sale.key.encode(),))}

    def _victims(self, redis: Server | None) -> list[Victim]:
        victims: list[Victim] = [*self._shops, self._relay, self._writer, Connection(self._writer, self.sale.into)]
        if redis is not None:
            victims.append(Machine("redis", redis, is_busy=lambda: self.served > 0))
        return victims

    @property
    def _expected(self) -> int:
        return min(self.sale.stock, self.sale.buyers)

    def _note(self, role: str) -> None:
        self._killed[role] += 1
        self._diary.mark(f"{role} killed")

    def _result(self, audit: Audit, is_told_right: bool, *, seconds: float, lag: float) -> Result:
        for shop in self._shops:
            self._diary.waited(shop.waits)
        return Result(
            seconds=seconds,
            orders_per_second=audit.accepted / seconds,
            lag=lag,
            accepted=audit.accepted,
            left=audit.left,
            rows=self._rows,
            oversold=max(0, audit.accepted - audit.returned - self.sale.stock),
            killed=dict(self._killed),
            is_balanced=audit.is_balanced and is_told_right and self._rows == audit.accepted == self._expected,
            course=self._diary.course(),
        )
