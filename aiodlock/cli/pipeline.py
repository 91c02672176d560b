"""A sale in several processes, from take to row, and what becomes of it when they are killed."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiodlock.cli.parts import Sale
from aiodlock.client import connect
from aiodlock.errors import BackendError

__all__ = ["Part", "Pipeline", "Result"]

_SETTLED_WITHIN = 90.0
_CHAOS_EVERY = (0.1, 0.5)  # seconds between two victims
_MOST_KILLS = 2  # of each part: who is begun again has to get somewhere


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


class Part:
    """One process of the sale; started again when it was killed, until it is done."""

    def __init__(self, role: str, sale: Sale, number: int = 0) -> None:
        self.role = role
        self.facts: dict[str, int] = {}  # what it told last
        self.is_done = False
        self.is_at_work = False  # has told something since it was started
        self.kills = 0
        self._command = (sys.executable, "-m", "aiodlock.cli.parts", role, sale.encode(), str(number))
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Run it until it ends by itself.

        Cancellation: its process is killed.
        """
        try:
            while not self.is_done:
                self._process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
                assert self._process.stdout is not None
                async for line in self._process.stdout:
                    self.facts, self.is_at_work = json.loads(line), True
                self.is_at_work = False
                self.is_done = await self._process.wait() == 0
                if self._process.returncode not in (0, -9):
                    raise BackendError(f"the {self.role} ended with {self._process.returncode}")
        finally:
            self.kill()

    def kill(self) -> None:
        """End its process at once, as a crash does."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()


class Pipeline:
    """All parts of one sale."""

    def __init__(self, sale: Sale, *, chaos: bool, seed: int) -> None:
        self.sale = sale
        self.shops = [Part("shop", sale, number) for number in range(sale.shops)]
        self.relay, self.writer = Part("relay", sale), Part("writer", sale)
        self.killed: Counter[str] = Counter()
        self._chaos = chaos
        self._dice = random.Random(seed)

    @property
    def served(self) -> int:
        """How many buyers the shops have served."""
        return sum(shop.facts.get("served", 0) for shop in self.shops)

    async def run(self) -> Result:
        """Open the sale, serve everybody, wait for the last row, and count.

        Cancellation: every process is killed; the sale stays open.
        """
        from aiodlock.inventory.orders.topics import make_topics

        sale = self.sale
        await make_topics(sale.orders, sale.topic, f"{sale.topic}.dead-letters")
        async with AsyncExitStack() as stack:
            locks = await stack.enter_async_context(connect(sale.backend))
            stock = sale.stock_of(locks)
            await stock.load(sale.stock)
            began = time.perf_counter()
            for part in (self.relay, self.writer):
                await stack.enter_async_context(_in_background(part.run()))
            chaos = await stack.enter_async_context(_in_background(self._make_chaos()))
            await asyncio.gather(*(shop.run() for shop in self.shops))
            sold = time.perf_counter()
            chaos.cancel()
            rows = await self._settle()
            landed = time.perf_counter()
            audit = await stock.audit()
            await stock.close()
        return Result(
            seconds=landed - began,
            orders_per_second=audit.accepted / (landed - began),
            lag=landed - sold,
            accepted=audit.accepted,
            left=audit.left,
            rows=rows,
            oversold=max(0, audit.accepted - audit.returned - sale.stock),
            killed=dict(self.killed),
            is_balanced=audit.is_balanced and rows == audit.accepted == min(sale.stock, sale.buyers),
        )

    async def _settle(self) -> int:
        """Wait until each order that was accepted has its row; return how many there are."""
        from aiodlock.inventory.orders import OrderWriter

        counter = OrderWriter(self.sale.orders, self.sale.into, topic=self.sale.topic)
        until, rows = time.perf_counter() + _SETTLED_WITHIN, 0
        while rows < min(self.sale.stock, self.sale.buyers) and time.perf_counter() < until:
            with suppress(Exception):  # the tables are made by the writer
                rows = (await counter.rows(self.sale.key)).orders
            await asyncio.sleep(0.05)
        return rows

    async def _make_chaos(self) -> None:
        """Kill whoever is at work; nobody so often that there is no end to it."""
        while self._chaos:
            await asyncio.sleep(self._dice.uniform(*_CHAOS_EVERY))
            victim = self._dice.choice((self._dice.choice(self.shops), self.relay, self.writer))
            if not victim.is_at_work or victim.kills == _MOST_KILLS:
                continue
            victim.kills += 1
            if victim is self.writer and self._dice.random() < 0.5:
                with suppress(Exception):  # it may have ended by itself
                    await _kill_session(self.sale.into, self.writer.facts["session"])
                    self.killed["connection"] += 1
            else:
                victim.kill()
                self.killed[victim.role] += 1


async def _kill_session(database: str, session: int) -> None:
    from aiodlock.inventory.orders.database import Database

    async with Database(database) as administrator:
        await administrator.run(f"KILL CONNECTION {session:d}")


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
