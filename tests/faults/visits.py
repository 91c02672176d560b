"""Visits: a task enters a line, records what it believes, and leaves; the same in a process and beside the test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiodlock import Hold, LockClient
from aiodlock.testing.history import Recorder
from tests.cancellation import remains

__all__ = ["KINDS", "Kind", "Way", "believe", "kept_by", "until_in_line", "visit"]

_ALL = 1 << 30  # the size of a read-write lock, and the weight of its writer
_LOOKS = 40


@dataclass(frozen=True, slots=True)
class Way:
    """One way to enter a line, and what it weighs there."""

    weight: int
    enter: Callable[[LockClient, str, float], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of line: its size, and the ways its visitors enter by."""

    size: int
    ways: tuple[Way, ...]


@asynccontextmanager
async def _both_permits(locks: LockClient, key: str, ttl: float) -> AsyncIterator[Hold]:
    async with await locks.semaphore(key, permits=2, ttl=ttl).acquire(2) as hold:
        yield hold


_READ = Way(1, lambda locks, key, ttl: locks.rwlock(key, ttl=ttl).read())
_WRITE = Way(_ALL, lambda locks, key, ttl: locks.rwlock(key, ttl=ttl).write())
_PERMIT = Way(1, lambda locks, key, ttl: locks.semaphore(key, permits=2, ttl=ttl))

KINDS = {
    "lock": Kind(1, (Way(1, lambda locks, key, ttl: locks.lock(key, ttl=ttl)),)),
    "fair lock": Kind(1, (Way(1, lambda locks, key, ttl: locks.lock(key, ttl=ttl, fair=True)),)),
    "rwlock": Kind(_ALL, (_READ, _WRITE)),
    "semaphore": Kind(2, (_PERMIT, Way(2, _both_permits))),
}


async def visit(record: Recorder, locks: LockClient, kind: str, key: str, *, ttl: float, stay: float = 0.002) -> None:
    """Enter once by any way of this kind, for at most *stay* seconds."""
    way = random.choice(KINDS[kind].ways)
    asked = record.now()
    async with way.enter(locks, key, ttl) as hold:
        believe(record, hold, key, asked=asked, weight=way.weight)
        await asyncio.sleep(random.random() * stay)
        record("renewed", key=key, id=hold.fence, valid_until=record.now() + hold.remaining)
        record("left", key=key, id=hold.fence)


def believe(record: Recorder, hold: Hold, key: str, *, asked: float, weight: int = 1) -> None:
    """Record that the holder believes to be inside, and until when."""
    until = record.now() + hold.remaining
    record("inside", key=key, id=hold.fence, asked=asked, valid_until=until, fence=hold.fence, weight=weight)


async def kept_by(locks: LockClient, *, within: float = 2.0) -> list[str]:
    """Say what a client whose visitors have all gone still keeps *within* seconds: a leave may be under way."""
    engine = locks._engine
    assert engine is not None
    for _ in range(_LOOKS):
        if not (kept := list(remains.of_engine(engine, ()))):
            break
        await asyncio.sleep(within / _LOOKS)
    return kept


async def until_in_line(locks: LockClient, key: str, count: int) -> None:
    """Return as soon as so many tickets stand in the lines of *key*."""
    for _ in range(1_000):
        if len([row async for row in locks.inspect(key)]) == count:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"never {count} in line")
