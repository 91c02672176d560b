"""What the nodes of the scheduled job run, each in a process of its own."""

from __future__ import annotations

import asyncio

import aiodlock
from aiodlock.testing.history import Recorder

TICK = 0.05


async def serve(record: Recorder, *, url: str, role: str) -> None:
    """Lead, and run the job at every tick; the ticks are the same on all nodes of this machine."""
    async with aiodlock.connect(url, name=record.who) as locks:
        asked = record.now()
        async with locks.election(role, ttl=5).leadership() as hold:
            fact = {"key": role, "id": hold.fence, "fence": hold.fence}
            record("inside", **fact, asked=asked, valid_until=record.now() + hold.remaining)
            while True:
                await asyncio.sleep(TICK - record.now() % TICK)
                hold.check()
                record("renewed", **fact, valid_until=record.now() + hold.remaining)
                record("ran", tick=round(record.now() / TICK))
