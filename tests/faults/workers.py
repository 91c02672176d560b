"""What the worker processes of the fault tests run. A worker may be a broken twin of the library, by its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import aiodlock
from aiodlock import LockClient
from aiodlock.errors import BackendUnavailableError, LockLostError
from aiodlock.testing.history import Recorder, operation
from tests.cancellation import remains
from tests.faults.twins import TWINS
from tests.faults.visits import believe, kept_by, visit
from tests.fuzz.twins import broken


async def contend(
    record: Recorder,
    *,
    url: str,
    kind: str,
    key: str,
    tasks: int,
    ttl: float,
    stop: str,
    twin: str,
    min_replicas: int = 0,
) -> None:
    """Enter again and again by several tasks, until the file *stop* is there."""
    async with _connected(record, url, twin, min_replicas) as locks:
        await asyncio.gather(*(_enter_until(stop, record, locks, kind, key, ttl) for _ in range(tasks)))


async def hold(
    record: Recorder, *, url: str, key: str, ttl: float, stop: str, twin: str, min_replicas: int = 0
) -> None:
    """Hold a lock until the file *stop* is there or the lock is lost, and record how long it is believed in."""
    async with _connected(record, url, twin, min_replicas) as locks:
        asked = record.now()
        try:
            async with locks.lock(key, ttl=ttl) as mine:
                believe(record, mine, key, asked=asked)
                while not _is_told(stop):
                    await asyncio.sleep(0.01)
                    record("renewed", key=key, id=mine.fence, valid_until=record.now() + mine.remaining)
                record("left", key=key, id=mine.fence)
        except LockLostError:
            record("lost", key=key)


async def attempt(record: Recorder, *, url: str, key: str, ttl: float, stop: str, twin: str) -> None:
    """Try to acquire, and release what was got, as operations of a try-lock."""
    async with _connected(record, url, twin) as locks:
        lock = locks.lock(key, ttl=ttl)
        while not _is_told(stop):
            with operation(record, key, "acquire", record.who) as acquired:
                held = await lock.try_acquire()
                acquired.result = held is not None
            await asyncio.sleep(0.002)
            if held is not None:
                with operation(record, key, "release", record.who) as released:
                    await held.release()
                    released.result = True


async def _enter_until(stop: str, record: Recorder, locks: LockClient, kind: str, key: str, ttl: float) -> None:
    while not _is_told(stop):
        try:
            await visit(record, locks, kind, key, ttl=ttl)
        except (LockLostError, BackendUnavailableError) as error:
            record(type(error).__name__, message=str(error))


@asynccontextmanager
async def _connected(record: Recorder, url: str, twin: str, min_replicas: int = 0) -> AsyncIterator[LockClient]:
    """Open a client, and record what it has kept when all of its tasks are done, and what is left when it is closed."""
    settings = {"min_replicas": min_replicas} if min_replicas else {}  # not every backend has it
    with broken(TWINS[twin]) if twin else nullcontext():
        async with aiodlock.connect(url, name=record.who, **settings) as locks:
            record("connected")
            yield locks
            kept = await kept_by(locks)
        record("closed", left=[*kept, *remains.tasks()])


def _is_told(stop: str) -> bool:
    return Path(stop).exists()
