"""The lock's face: who is inside, who is told, and what a call leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId, Ticket, TicketId
from aiodlock.client import LockClient
from aiodlock.errors import (
    AcquireTimeoutError,
    ClientClosedError,
    LockError,
    LockLostError,
    NotHeldError,
)
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World
from aiodlock.testing.history import Event, Recorder, check_exclusion, check_fencing, stays

__all__ = [
    "a_counter_is_exact",
    "a_server_that_is_there_answers",
    "closing_leaves_nothing",
    "force_release_frees_and_tells",
    "inspect_tells_who_holds_and_who_waits",
    "kinds_are_different_lines",
    "odd_keys_are_different_keys",
    "one_at_a_time",
    "only_the_owner_releases",
    "re_entry_is_counted",
    "run_is_exclusive",
    "trying_does_not_wait",
    "waiting_is_limited",
    "without_re_entry_the_second_acquire_raises",
]

_ODD_KEYS = ("a", "A", "a b", "秒杀", "🔒", "é" * 80, *(f"a{c}b" for c in "*?[]{}:/\\%_'\";-"))


async def _enter(lock: Any, record: Recorder, key: str, ttl: float) -> None:
    asked = record.now()
    async with lock as hold:
        valid_until = record.now() + hold.remaining
        record("inside", key=key, id=hold.fence, asked=asked, valid_until=valid_until, fence=hold.fence)
        await asyncio.sleep(ttl / 1_000)
        hold.check()
        record("renewed", key=key, id=hold.fence, valid_until=record.now() + hold.remaining)
        record("left", key=key, id=hold.fence)


@check(1, 41)
async def one_at_a_time(world: World) -> None:
    """Many tasks of many clients: no two are inside together, every ownership has a larger fence."""
    events: list[Event] = []
    clients, key = await world.clients(16), world.key()
    policies: list[dict[str, Any]] = [{}, {"fair": world.capabilities.ordered}, {"renew": False}]
    await asyncio.gather(
        *(
            _enter(
                client.lock(key, ttl=10 * world.ttl, **policies[n % 3]),
                Recorder(events.append, who=f"{client.name}-{n}", now=lambda: world.now),
                key,
                world.ttl,
            )
            for client in clients
            for n in range(12)
        )
    )
    history = stays(events)
    assert len(history) == 16 * 12
    assert check_exclusion(history) == []
    assert check_fencing(history) == []


@check(1)
async def a_counter_is_exact(world: World) -> None:
    """Read, wait, write: nothing is lost, whoever does it."""

    async def increment(client: LockClient) -> None:
        for _ in range(10):
            async with client.lock(world.key()):
                before = counter[0]
                await asyncio.sleep(0)
                counter[0] = before + 1

    counter = [0]
    await asyncio.gather(*(increment(client) for client in await world.clients(8)))
    assert counter == [80]


@check(2)
async def only_the_owner_releases(world: World) -> None:
    """A hold that was released, a task that did not enter, a ticket that is not inside: the lock is untouched."""
    mine, other = await world.clients(2)
    lock = mine.lock(world.key())
    old = await lock.acquire()
    await old.release()
    async with other.lock(lock.key):
        with raises(NotHeldError):
            await old.release()
        with raises(NotHeldError):
            await lock.__aexit__(None, None, None)
        await mine.backend.leave(Ticket.of(LineId("lock", lock.key), TicketId("nobody")))
        await mine.backend.leave(Ticket.of(LineId("lock", lock.key), TicketId("nobody")), bury=True)
        assert await lock.holder() == other.name


@check(3)
async def re_entry_is_counted(world: World) -> None:
    """N acquires by one task need N releases; the fence stays the same."""
    mine, other = await world.clients(2)
    lock, watched = mine.lock(world.key()), other.lock(world.key())
    holds = [await lock.acquire() for _ in range(3)]
    async with lock as again:
        assert {hold.fence for hold in holds} == {again.fence}
    for hold in holds:
        assert await watched.locked()
        await hold.release()
    assert not await watched.locked()


@check(3)
async def without_re_entry_the_second_acquire_raises(world: World) -> None:
    """At once, instead of waiting for itself."""
    client = await world.client()
    lock = client.lock(world.key(), reentrant=False)
    async with lock:
        with raises(LockError):
            await lock.acquire()
        assert await world.start(lock.try_acquire()) is None
    assert not await lock.locked()


@check(4, 32)
async def waiting_is_limited(world: World) -> None:
    """The error comes in time, says who holds, and no ticket is left in line."""
    mine, other = await world.clients(2)
    async with other.lock(world.key()):
        began, wait = world.now, 0.3 * world.ttl
        with raises(AcquireTimeoutError) as raised:
            await mine.lock(world.key()).acquire(wait)
        assert wait <= world.now - began + 0.001
        assert world.now - began <= wait + world.slack
        assert (raised.error.waited, raised.error.holder) == (wait, other.name)
        await world.until_waiting(0, within=world.slack)


@check(5)
async def trying_does_not_wait(world: World) -> None:
    """A taken lock answers None at once and has no new ticket; a free one is taken."""
    mine, other = await world.clients(2)
    lock = mine.lock(world.key())
    async with other.lock(lock.key):
        began = world.now
        assert await lock.try_acquire() is None
        assert world.now - began <= world.slack
        assert [row.owner for row in await world.rows()] == [other.name]
    hold = await lock.try_acquire()
    assert hold is not None
    await hold.release()


@check(12)
async def force_release_frees_and_tells(world: World) -> None:
    """A waiter gets in, the old holder's block is cancelled, and its release does not harm the new one."""

    async def work() -> None:
        async with mine.lock(world.key()):
            inside.set()
            await asyncio.sleep(100 * world.ttl)

    mine, other, admin = await world.clients(3)
    inside = asyncio.Event()
    block = world.start(work())
    await inside.wait()
    waiter = world.start(other.lock(world.key()).acquire())
    await world.until_waiting(1)
    assert await admin.lock(world.key()).force_release() == 1
    hold: Hold = await waiter
    with raises(LockLostError):
        await block
    assert await admin.lock(world.key()).holder() == other.name
    hold.check()
    await hold.release()
    assert await admin.lock(world.key()).force_release() == 0


@check(16)
async def odd_keys_are_different_keys(world: World) -> None:
    """Whatever characters they have; each is held, seen and released by itself."""
    mine, other = await world.clients(2)
    keys = [world.key(odd) for odd in _ODD_KEYS]
    holds = [await mine.lock(key).acquire(1) for key in keys]
    assert sorted(row.key for row in await world.rows()) == sorted(keys)
    for key, hold in zip(keys, holds, strict=True):
        assert await other.lock(key).holder() == mine.name
        await hold.release()
        assert not await other.lock(key).locked()
    assert await world.rows() == []


@check(10)
async def inspect_tells_who_holds_and_who_waits(world: World) -> None:
    """With what is left of the lease, since when, and the epoch of the holder; nothing when it is free."""
    mine, other = await world.clients(2)
    lock = mine.lock(world.key(), ttl=10 * world.ttl)
    assert not await lock.locked()
    assert await lock.holder() is None
    async with lock as hold:
        world.start(other.lock(world.key()).acquire())
        await world.until_waiting(1)
        holder, waiter = await world.rows()
        assert (holder.kind, holder.key, holder.owner, holder.inside, holder.weight) == (
            ("lock", lock.key, mine.name, True, 1)
        )
        assert 9 * world.ttl < holder.remaining <= 10 * world.ttl
        assert holder.epoch == hold.fence >> 15
        assert (waiter.owner, waiter.inside, waiter.epoch) == (other.name, False, None)
        assert 0 <= waiter.since <= holder.since


@check()
async def kinds_are_different_lines(world: World) -> None:
    """A lock, a semaphore and an election of one key have nothing to do with each other."""
    client, key = await world.client(), world.key()
    async with client.lock(key), client.semaphore(key, permits=1, wait=0), client.election(key).leadership():
        assert len({row.kind for row in await world.rows()}) == 3


@check()
async def run_is_exclusive(world: World) -> None:
    """Plain functions of many clients under one lock, each with its result."""

    def add() -> int:
        total.append(len(total))
        return total[-1]

    total: list[int] = []
    key = world.key()
    results = await asyncio.gather(*(client.lock(key).run(add) for client in await world.clients(4) for _ in range(25)))
    assert sorted(results) == list(range(100))


@check(24)
async def closing_leaves_nothing(world: World) -> None:
    """Holds are lost, waiters get an error, and no ticket is left."""
    mine, other = await world.clients(2)
    hold = await mine.lock(world.key("mine")).acquire()
    taken = await other.lock(world.key()).acquire()
    ordered = world.capabilities.ordered  # otherwise nothing is fair, and whoever waits is not shown
    waiters = [world.start(mine.lock(world.key(), fair=fair).acquire()) for fair in (False, ordered)]
    await world.until_waiting(2 if ordered else 0)
    await mine.aclose()
    for waiter in waiters:
        with raises(ClientClosedError):
            await waiter
    assert hold.lost
    assert [row.owner for row in await world.rows()] == [other.name]
    await taken.release()


@check()
async def a_server_that_is_there_answers(world: World) -> None:
    """The readiness check."""
    await (await world.client()).ping()
