"""What the processes of the failover tests run."""

from __future__ import annotations

import asyncio
import contextlib
import random

import aiodlock
from aiodlock import AcquireTimeoutError, BackendUnavailableError, LockLostError
from aiodlock.testing.history import Recorder


async def contend(record: Recorder, *, url: str, key: str, ttl: float, min_replicas: int) -> None:
    """Enter and leave for ever, through failovers, and say when it is known for sure."""
    async with aiodlock.connect(url, name=record.who, patience=1.0, min_replicas=min_replicas) as locks:
        lock = locks.lock(key, ttl=ttl, wait=5)
        while True:
            with contextlib.suppress(AcquireTimeoutError, BackendUnavailableError, LockLostError):
                await _visit(record, lock, key)


async def _visit(record: Recorder, lock: aiodlock.Lock, key: str) -> None:
    asked = record.now()
    async with lock as hold:
        facts = {"key": key, "id": hold.fence, "fence": hold.fence}
        record("inside", **facts, asked=asked, valid_until=record.now() + hold.remaining)
        try:
            for _ in range(random.randrange(1, 5)):
                await asyncio.sleep(0.01)
                hold.check()
                record("renewed", **facts, valid_until=record.now() + hold.remaining)
        finally:
            record("left", **facts)
