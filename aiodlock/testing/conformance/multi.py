"""The multi-lock: several locks as one, all or nothing, in one order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from aiodlock.client import LockClient
from aiodlock.errors import AcquireTimeoutError, LockError, LockLostError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.multi import MultiLock
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "KINDS",
    "Make",
    "a_member_that_is_refused_leaves_nothing",
    "a_task_that_holds_a_later_member_is_told",
    "all_or_nothing",
    "every_kind_can_be_a_member",
    "one_lost_member_loses_the_whole",
    "opposite_orders_never_deadlock",
    "two_permits_each_never_deadlock",
]

Make = Callable[[LockClient, str], Synchronizer[Any]]

KINDS: dict[str, Make] = {
    "lock": lambda client, key: client.lock(key),
    "fair": lambda client, key: client.lock(key, fair=True),
    "read": lambda client, key: client.rwlock(key).read(),
    "write": lambda client, key: client.rwlock(key).write(),
    "permit": lambda client, key: client.semaphore(key, permits=1),
    "leadership": lambda client, key: client.election(key).leadership(),
    "segment": lambda client, key: client.segmented(key, segments=2).lock("somebody"),
}


def _locks(world: World, client: LockClient, names: str, **settings: Any) -> MultiLock:
    return client.multi(*(client.lock(world.key(name), **settings) for name in names.split()))


@check(49)
async def opposite_orders_never_deadlock(world: World) -> None:
    """Whatever members are asked for in whatever order, by tasks of one client and of several: all get through."""
    chance, inside = random.Random(49), dict.fromkeys("abcd", 0)

    async def visit(client: LockClient) -> None:
        for _ in range(5):
            names = chance.sample("abcd", chance.randint(2, 4))
            async with _locks(world, client, " ".join(names)):
                for name in names:
                    inside[name] += 1
                    assert inside[name] == 1
                await asyncio.sleep(chance.random() * 0.005)
                for name in names:
                    inside[name] -= 1

    clients = await world.clients(2)
    await asyncio.gather(*(visit(client) for client in clients for _ in range(5)))


@check(49)
async def two_permits_each_never_deadlock(world: World) -> None:
    """A semaphore given twice is one ticket for two; with one for each, both would have one and wait for ever."""
    inside = 0

    async def visit(client: LockClient) -> None:
        nonlocal inside
        semaphore = client.semaphore(world.key(), permits=2)
        for _ in range(3):
            async with client.multi(semaphore, semaphore) as hold:
                inside += 1
                assert (inside, [permit.permits for permit in hold.holds]) == (1, [2])  # type: ignore[attr-defined]
                await asyncio.sleep(0.001)
                inside -= 1

    clients = await world.clients(2)
    await asyncio.gather(*(visit(client) for client in clients for _ in range(3)))


@check()
async def every_kind_can_be_a_member(world: World) -> None:
    """Of several clients too; all are held inside, none afterwards."""
    clients = await world.clients(2)
    members = [make(clients[n % 2], world.key(kind)) for n, (kind, make) in enumerate(KINDS.items())]
    multi = clients[0].multi(*reversed(members))
    async with multi as hold:
        assert {row.key for row in await world.rows() if row.inside} >= {member.key for member in members}
        assert len(hold.holds) == len(KINDS)
        assert await multi.locked()
        hold.check()
    assert not await multi.locked()
    assert await multi.run(lambda: "result") == "result"


@check(50)
async def all_or_nothing(world: World) -> None:
    """A member that is busy, out of time or cancelled leaves none of the others held, and no ticket."""
    mine, other = await world.clients(2)
    multi = _locks(world, mine, "c a b")
    async with other.lock(world.key("b")):
        assert await multi.try_acquire() is None
        assert [row.owner for row in await world.rows()] == [other.name]
        began = world.now
        with raises(AcquireTimeoutError) as raised:
            await multi.acquire(0.2 * world.ttl)
        assert world.now - began <= 0.2 * world.ttl + world.slack
        assert (raised.error.key, raised.error.waited) == (world.key("b"), 0.2 * world.ttl)
        assert raised.error.holder == other.name
        waiter = world.start(multi.acquire())
        await world.until_waiting(1)
        waiter.cancel()
        await asyncio.wait({waiter})
        await world.until(lambda: _only(world, other.name))
    async with multi:
        assert len(await world.rows()) == 3


@check(50)
async def a_member_that_is_refused_leaves_nothing(world: World) -> None:
    """An error of one member, whichever it is, gives the others back."""
    mine, other = await world.clients(2)
    async with other.semaphore(world.key("b"), permits=1):
        heavy = mine.semaphore(world.key("b"), permits=2)
        with raises(LockError) as raised:
            await mine.multi(mine.lock(world.key("a")), heavy, heavy, mine.lock(world.key("c"))).acquire()
        assert "no room for 2" in str(raised.error)
        await world.until(lambda: _only(world, other.name))


@check()
async def a_task_that_holds_a_later_member_is_told(world: World) -> None:
    """Instead of a deadlock with another that holds the earlier one; an earlier one is entered again."""
    client = await world.client()
    multi = _locks(world, client, "a b")
    async with client.lock(world.key("b")):
        with raises(LockError) as raised:
            await multi.acquire()
        assert world.key("a") in str(raised.error)
        assert len(await world.rows()) == 1
    async with client.semaphore(world.key("d"), permits=2) as permit:
        with raises(LockError):
            await client.multi(client.lock(world.key("c")), client.semaphore(world.key("d"), permits=2)).acquire()
        permit.check()
    async with client.lock(world.key("a")) as first, multi as hold:
        assert hold.holds[0].fence == first.fence


@check()
async def one_lost_member_loses_the_whole(world: World) -> None:
    """The block is cancelled once, however many are lost, and everything is given back."""
    mine, other = await world.clients(2)
    inside, leave, cancels = asyncio.Event(), asyncio.Event(), 0

    async def work() -> None:
        nonlocal cancels
        async with _locks(world, mine, "a b c", ttl=world.ttl) as hold:
            inside.set()
            while not leave.is_set():
                try:
                    await leave.wait()
                except asyncio.CancelledError:
                    cancels += 1
                    assert hold.lost

    task = world.start(work())
    await inside.wait()
    for name in "bc":
        await other.lock(world.key(name)).force_release()
        await world.until(lambda: bool(cancels), within=world.ttl)
    await world.sleep(world.ttl)
    leave.set()
    with raises(LockLostError):
        await task
    assert cancels == 1
    assert await world.rows() == []


async def _only(world: World, owner: str) -> bool:
    return [row.owner for row in await world.rows()] == [owner]
