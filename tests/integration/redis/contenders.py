"""What the processes of the failover tests run."""

from __future__ import annotations

import asyncio
import contextlib
import random

import aiodlock
from aiodlock import AcquireTimeoutError, BackendUnavailableError, LockLostError
from aiodlock.backends.redis.backend import RedisBackend
from aiodlock.backends.redis.node import Node
from aiodlock.testing.history import Recorder


async def contend(
    record: Recorder, *, url: str, key: str = "k", ttl: float = 3.0, min_replicas: int = 0, step: float = 0.01
) -> None:
    """Enter, stay for one to four steps and leave, for ever, through failovers."""
    async with aiodlock.connect(url, name=record.who, patience=1.0, min_replicas=min_replicas) as locks:
        lock = locks.lock(key, ttl=ttl, wait=5)
        assert isinstance(locks.backend, RedisBackend)
        while True:
            with contextlib.suppress(AcquireTimeoutError, BackendUnavailableError, LockLostError):
                await _visit(record, lock, step, locks.backend._node)


async def _visit(record: Recorder, lock: aiodlock.Lock, step: float, node: Node) -> None:
    asked = record.now()
    async with lock as hold:
        facts = {"key": hold.key, "id": hold.fence, "fence": hold.fence, "server": str(node.peer)}
        record("inside", **facts, asked=asked, valid_until=record.now() + hold.remaining)
        try:
            for _ in range(random.randrange(1, 5)):
                await asyncio.sleep(step)
                hold.check()
                record("renewed", **facts, valid_until=record.now() + hold.remaining)
        finally:
            record("left", **facts)
