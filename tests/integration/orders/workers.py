"""The parts of the pipeline in processes of their own, which a test may kill."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from typing import Any

import aiodlock
from aiodlock.inventory.orders import OrderWriter, OutboxRelay, Publisher
from aiodlock.inventory.orders import relay as relaying
from aiodlock.inventory.orders import writer as writing
from aiodlock.inventory.orders.database import Database
from aiodlock.testing.history import Recorder


def die_at(point: str) -> None:
    """Kill this process, as a crash does, the second time that it comes to a point: before or after a method."""
    when, _, name = point.partition(" ")
    owner: Any = Publisher if name == "publish" else Database
    method, comings = getattr(owner, name), itertools.count(1)

    async def deadly(self: Any, *arguments: Any) -> None:
        is_last = next(comings) == 2
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await method(self, *arguments)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, deadly)


async def relay(record: Recorder, *, redis: str, kafka: str, stock: str, topic: str, point: str = "") -> None:
    """Publish until killed; tell how much after each look."""
    if point:
        die_at(point)
        relaying._TTL, relaying._MOST_ENTRIES = 1.0, 2
    async with aiodlock.connect(redis) as locks:
        shelf = locks.stock(stock, segments=3, outbox=True)
        async with OutboxRelay(shelf, kafka, topic=topic, patience=5.0) as working:
            await _tell(record, lambda: working.published)


async def writer(record: Recorder, *, kafka: str, mysql: str, topic: str, point: str = "") -> None:
    """Write until killed; tell how much after each look."""
    if point:
        die_at(point)
        writing._MOST_RECORDS = 50
    async with OrderWriter(kafka, mysql, topic=topic) as working:
        await _tell(record, lambda: working.written)


async def _tell(record: Recorder, count: object) -> None:
    before = -1
    while True:
        now = count()  # type: ignore[operator]
        if now != before:
            record("did", count=now)
            before = now
        await asyncio.sleep(0.005)


async def shop(record: Recorder, *, redis: str, stock: str, first: int, orders: int) -> None:
    """Sell, a few at a time; every tenth goes back."""
    async with aiodlock.connect(redis) as locks:
        shelf = locks.stock(stock, segments=3, outbox=True, patience=30.0)
        numbers = iter(range(first, first + orders))

        async def lane() -> None:
            for number in numbers:
                wish = {"buyer": f"b-{number}", "order": f"o-{number}"}
                sale = await shelf.take(**wish)
                record("did", order=wish["order"], taken=isinstance(sale, aiodlock.Taken))
                if isinstance(sale, aiodlock.Taken) and number % 10 == 0:
                    await shelf.put_back(**wish)
                await asyncio.sleep(0.005)

        await asyncio.gather(*(lane() for _ in range(10)))
