"""What the processes of the fallback test run."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import aiodlock
from aiodlock import LockLostError
from aiodlock.testing.history import Recorder


async def contend(record: Recorder, *, url: str, fallback: str, ttl: float) -> None:
    """Enter, stay a little and leave, for ever; tell after each time of which server the hold was."""
    async with aiodlock.connect(url, name=record.who, fallback=fallback) as locks:
        for number in itertools.count():
            with contextlib.suppress(LockLostError):
                await _visit(record, locks.lock("k", ttl=ttl), number)


async def _visit(record: Recorder, lock: aiodlock.Lock, number: int) -> None:
    asked = record.now()
    async with lock as hold:
        server = "fallback" if hold.degraded else "own"
        facts = {"key": lock.key, "id": number, "server": server}
        record("inside", **facts, asked=asked, valid_until=record.now() + hold.remaining)
        try:
            await asyncio.sleep(0.01)
        finally:
            record("left", **facts)
    record(server)
