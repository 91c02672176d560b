"""Sample calls of the public face, type-checked by mypy strict and never run.

`assert_type` says what users get; a line with an ignore says what must be refused: an ignore that is not needed is an
error as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import assert_type

import aiodlock
from aiodlock import Hold, Lock, LockClient, Policy, Poll, Push, Retry, Row
from aiodlock.backends.base import Backend
from aiodlock.backends.memory import MemoryBackend
from aiodlock.events import Event, HoldLost
from aiodlock.testing import FakeClock, Faults
from aiodlock.testing.conformance import CHECKS, World, run


async def clients(backend: Backend) -> None:
    async with aiodlock.connect("memory://", name="web-1", waiting=Poll(0.1), max_waiters=10) as locks:
        assert_type(locks, LockClient)
        assert_type(locks.name, str)
        assert_type(locks.backend, Backend)
        assert_type(await locks.ping(), None)
        async for row in locks.inspect("order:*"):
            assert_type(row, Row)
    LockClient(MemoryBackend(), clock=FakeClock())
    await LockClient(backend).start()
    aiodlock.connect()  # type: ignore[call-arg]
    aiodlock.connect("memory://", "web-1")  # type: ignore[call-arg]
    aiodlock.connect("memory://", waiting=0.1)  # type: ignore[arg-type]


async def locks_of(locks: LockClient) -> None:
    lock = locks.lock("k", ttl=5, wait=None, renew=True, max_hold=60.0, fair=False, reentrant=True, linger=1.0)
    assert_type(lock, Lock)
    assert_type(lock.key, str)
    assert_type(lock.policy, Policy)
    async with lock as hold:
        assert_type(hold, Hold)
    async with contextlib.AsyncExitStack() as stack:
        assert_type(await stack.enter_async_context(lock), Hold)
    assert_type(await lock.acquire(), Hold)
    assert_type(await lock.acquire(wait=None), Hold)
    assert_type(await lock.acquire(0.5), Hold)
    assert_type(await lock.try_acquire(), Hold | None)
    assert_type(await lock.run(lambda: 7), int)
    assert_type(await lock.locked(), bool)
    assert_type(await lock.holder(), str | None)
    assert_type(await lock.force_release(), int)
    if maybe := await lock.try_acquire():
        async with maybe as same:
            assert_type(same, Hold)
    locks.lock()  # type: ignore[call-arg]
    locks.lock(42)  # type: ignore[arg-type]
    locks.lock("k", ttl="5")  # type: ignore[arg-type]
    locks.lock("k", timeout=5)  # type: ignore[call-arg]
    locks.lock("k", on_lost="ignore")  # type: ignore[arg-type]
    await lock.acquire("5")  # type: ignore[arg-type]
    with lock:  # type: ignore[attr-defined]
        pass


def ways_of_losing(locks: LockClient) -> None:
    def on_lost(hold: Hold) -> None: ...

    def wrong(hold: str) -> None: ...

    locks.lock("k", on_lost="cancel")
    locks.lock("k", on_lost="flag")
    locks.lock("k", on_lost=on_lost)
    locks.lock("k", on_lost=wrong)  # type: ignore[arg-type]


def ways_of_waiting(locks: LockClient) -> None:
    for waiting in (Push(), Poll(interval=0.1, jitter=0.2), Retry(times=3, interval=0.1)):
        locks.lock("k", waiting=waiting)
    locks.lock("k", waiting="poll")  # type: ignore[arg-type]


async def holds(hold: Hold) -> None:
    assert_type(hold.key, str)
    assert_type(hold.fence, int)
    assert_type(hold.owner, str)
    assert_type(hold.acquired_at, datetime)
    assert_type(hold.remaining, float)
    assert_type(hold.lost, bool)
    assert_type(hold.revoked, bool)
    assert_type(hold.check(), None)
    assert_type(await hold.extend(30), None)
    assert_type(await hold.release(), None)
    assert_type(hold.release_nowait(), None)
    assert_type(await hold.wait_lost(), None)
    async with hold.reenter() as again:
        assert_type(again, Hold)
    hold.fence = 5  # type: ignore[misc]
    await hold.extend()  # type: ignore[call-arg]


def events(event: Event) -> None:
    aiodlock.connect("memory://", on_event=events)
    if isinstance(event, HoldLost):
        assert_type(event.reason, str)
    event.name = "x"  # type: ignore[misc]


async def errors(lock: Lock) -> None:
    try:
        await lock.acquire(1)
    except aiodlock.AcquireTimeoutError as late:
        assert_type(late.key, str)
        assert_type(late.waited, float)
        assert_type(late.holder, str | None)
    except aiodlock.LockLostError as lost:
        assert_type(lost.reason, str)


class MyWorld(World):
    def connect(self, **settings: object) -> LockClient:
        return LockClient(MemoryBackend("mine"))


def testing(locks: LockClient) -> None:
    faults = Faults(locks)
    faults.drop_reply("join")
    faults.drop_reply("jion")  # type: ignore[arg-type]
    faults.calls = "drop"
    faults.calls = "lose"  # type: ignore[assignment]
    for check in CHECKS:
        run(check, MyWorld())


async def stock(locks: LockClient) -> None:
    stock = locks.stock("sku:42", segments=16)
    match await stock.take(buyer="u-17", order="o-9"):
        case aiodlock.Taken(segment=segment):
            assert_type(segment, int)
        case aiodlock.SoldOut() | aiodlock.AlreadyTaken() | aiodlock.Returned() as no:
            assert_type(no, aiodlock.SoldOut | aiodlock.AlreadyTaken | aiodlock.Returned)
    assert_type((await stock.remaining()).total, int)
    assert_type((await stock.audit()).is_balanced, bool)
    await stock.take("u-17", "o-9")  # type: ignore[call-arg]


async def synchronizers(locks: LockClient) -> None:
    async with locks.rwlock("menu").write() as hold:
        assert_type(await hold.downgrade(), None)
    async with locks.semaphore("gpu", permits=4) as permit:
        assert_type(permit.permit, str)
    async with await locks.semaphore("gpu", permits=4).acquire(2, wait=1) as permits:
        assert_type(permits.permits, int)
    assert_type(await locks.semaphore("gpu", permits=4).participants(), Sequence[Row])
    latch = locks.latch("warm-up", count=3)
    await latch.count_down()
    await latch.opened(wait=5)
    async with locks.multi(locks.lock("a"), locks.lock("b")) as both:
        assert_type(both.holds, tuple[Hold, ...])
    async with locks.segmented("sku:42", segments=16).lock("user") as segment:
        assert_type(segment.segment, int)
    async with locks.election("scheduler").leadership() as leading:
        assert_type(leading.fence, int)
    locks.semaphore("gpu")  # type: ignore[call-arg]
