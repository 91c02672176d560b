"""Shops in processes of their own, which a test may kill."""

from __future__ import annotations

import asyncio

import aiodlock
from aiodlock.testing.history import Recorder


async def shop(record: Recorder, *, url: str, key: str, first: int, orders: int, lanes: int) -> None:
    """Take orders one after the other in each lane, put every fourth back, and tell of each before and after."""
    async with aiodlock.connect(url) as locks:
        stock = locks.stock(key, segments=5, memory=600.0, once_per_buyer=True, outbox=True)
        numbers = iter(range(first, first + orders))

        async def lane() -> None:
            for number in numbers:
                who = {"buyer": f"b-{number}", "order": f"o-{number}"}
                record("asked", order=who["order"])
                sale = await stock.take(**who)
                record("answered", order=who["order"], taken=isinstance(sale, aiodlock.Taken))
                if isinstance(sale, aiodlock.Taken) and number % 4 == 0:
                    await stock.put_back(**who)
                    record("put back", order=who["order"])

        await asyncio.gather(*(lane() for _ in range(lanes)))
