"""The semaphore: so many permits at a time, several at once if asked for, in one line."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from aiodlock.client import LockClient
from aiodlock.errors import LockError, LockLostError
from aiodlock.locks.semaphore import Permit, Semaphore
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_client_has_as_many_tickets_as_there_are_permits",
    "a_heavy_release_wakes_as_many_as_now_fit",
    "a_larger_size_lets_waiters_in",
    "a_smaller_size_is_kept_by_those_who_pass_permits_on",
    "a_smaller_size_lets_stay_who_is_inside",
    "every_permit_has_an_id_and_a_fence_of_its_own",
    "never_more_than_its_permits",
    "permits_with_a_lease_of_their_own_end_one_by_one",
    "several_permits_are_waited_for_together_and_nobody_overtakes",
    "the_number_is_set_by_who_comes_first",
    "the_participants_are_told_oldest_first",
    "the_permit_of_a_dead_client_comes_back",
]


class _Room:
    """How many permits are taken, and how many ever were at once."""

    taken = most = 0

    async def visit(self, semaphore: Semaphore, count: int, seconds: float) -> None:
        async with await semaphore.acquire(count) as permit:
            self.taken += permit.permits
            self.most = max(self.most, self.taken)
            await asyncio.sleep(seconds)
            self.taken -= permit.permits

    async def visit_on(self, semaphore: Semaphore, seconds: float) -> None:
        while True:
            await self.visit(semaphore, 1, seconds)


async def _take(world: World, client: LockClient, count: int = 1, **settings: Any) -> Permit:
    return await client.semaphore(world.key(), permits=3, **settings).acquire(count)


@check(43)
async def never_more_than_its_permits(world: World) -> None:
    """Of all clients, of all weights, with a ticket of their own or shared; and all of them are used."""
    room, chance = _Room(), random.Random(43)
    policies: list[dict[str, Any]] = [{}, {"fair": True}, {"renew": False}]

    async def visit(client: LockClient, number: int) -> None:
        semaphore = client.semaphore(world.key(), permits=3, **policies[number % 3])
        for _ in range(4):
            await room.visit(semaphore, chance.choice([1, 1, 2, 3]), chance.random() * 0.01)

    clients = await world.clients(3)
    await asyncio.gather(*(visit(client, number) for client in clients for number in range(6)))
    assert room.most == 3


@check(45)
async def several_permits_are_waited_for_together_and_nobody_overtakes(world: World) -> None:
    """Two are given when both are there; one that is free meanwhile waits for who came first."""
    mine, other, third = await world.clients(3)
    first, second, third_one = [await _take(world, mine) for _ in range(3)]
    heavy = world.start(_take(world, other, 2))
    await world.until_waiting(1)
    light = world.start(_take(world, third))
    await world.until_waiting(2)
    await first.release()
    assert await third.semaphore(world.key(), permits=3).try_acquire() is None
    await world.sleep(2 * world.soon())
    assert not heavy.done()
    assert not light.done()
    await second.release()
    both = await heavy
    assert (both.permits, light.done()) == (2, False)
    await third_one.release()
    await (await light).release()
    await both.release()


@check(44)
async def a_heavy_release_wakes_as_many_as_now_fit(world: World) -> None:
    """Three permits come back at once: three waiters of three clients are inside, the fourth is not."""
    mine, *others = await world.clients(5)
    hold = await _take(world, mine, 3)
    waiters = []
    for client in others:
        waiters.append(world.start(_take(world, client)))
        await world.until_waiting(len(waiters))
    await hold.release()
    began = world.now
    permits = [await waiter for waiter in waiters[:3]]
    assert world.now - began <= world.soon()
    assert not waiters[3].done()
    await permits[1].release()
    for permit in (permits[0], permits[2], await waiters[3]):
        await permit.release()


@check()
async def every_permit_has_an_id_and_a_fence_of_its_own(world: World) -> None:
    """Also those of one task, which is never let in again on what it has."""
    mine, other = await world.clients(2)
    semaphore = mine.semaphore(world.key(), permits=3)
    async with semaphore as one, semaphore as two:
        async with await other.semaphore(world.key(), permits=3).acquire() as three:
            assert await semaphore.try_acquire() is None
            assert len({permit.permit for permit in (one, two, three)}) == 3
            assert one.fence < two.fence < three.fence
        async with semaphore as four:
            assert four.fence > three.fence
            assert len(await semaphore.participants()) == 3
    assert await semaphore.participants() == []


@check()
async def a_client_has_as_many_tickets_as_there_are_permits(world: World) -> None:
    """Ten tasks, three permits: three tickets, none that waits; the permits pass on inside the client."""
    room, client = _Room(), await world.client()
    semaphore = client.semaphore(world.key(), permits=3, ttl=world.ttl)
    for _ in range(10):
        world.start(room.visit_on(semaphore, 0.01))
    await world.until(lambda: room.most == 3)
    for _ in range(3):
        await world.sleep(0.005)
        assert sum(row.inside for row in await world.rows()) == len(await world.rows()) == 3
    assert room.most == 3


@check()
async def the_participants_are_told_oldest_first(world: World) -> None:
    """Who is inside, who waits, and for how many."""
    mine, other = await world.clients(2)
    first = await _take(world, mine, 2)
    second = await _take(world, other)
    waiter = world.start(_take(world, mine, 3))
    await world.until_waiting(1)
    rows = await other.semaphore(world.key(), permits=3).participants()
    assert [(row.owner, row.weight, row.inside) for row in rows] == [
        (mine.name, 2, True),
        (other.name, 1, True),
        (mine.name, 3, False),
    ]
    await first.release()
    await second.release()
    await (await waiter).release()


@check()
async def the_number_is_set_by_who_comes_first(world: World) -> None:
    """Another number changes nothing; when nobody is there, whoever comes next sets it."""
    mine, other = await world.clients(2)
    async with mine.semaphore(world.key(), permits=1):
        assert await other.semaphore(world.key(), permits=5).try_acquire() is None
        with raises(LockError) as raised:
            await other.semaphore(world.key(), permits=5).acquire(2)
        assert "no room for 2" in str(raised.error)
    async with await other.semaphore(world.key(), permits=5).acquire(4), mine.semaphore(world.key(), permits=1):
        assert await mine.semaphore(world.key(), permits=1).try_acquire() is None


@check(46)
async def a_larger_size_lets_waiters_in(world: World) -> None:
    """Who stands in line at once; who waits behind others of its own client with that client's next renewal."""
    mine, other = await world.clients(2)
    semaphore = mine.semaphore(world.key(), permits=1, ttl=world.ttl)
    async with semaphore:
        waiters = [world.start(semaphore.acquire()) for _ in range(2)]
        waiters.append(world.start(other.semaphore(world.key(), permits=1).acquire()))
        await world.until_waiting(1)
        began = world.now
        await other.semaphore(world.key(), permits=1).resize(2)
        hold = await waiters[2]
        assert world.now - began <= world.soon()
        await other.semaphore(world.key(), permits=1).resize(4)
        holds = [await waiter for waiter in waiters[:2]]
        assert world.now - began <= world.ttl / 2 + world.slack
    for permit in (hold, *holds):
        await permit.release()


@check(46)
async def a_smaller_size_lets_stay_who_is_inside(world: World) -> None:
    """A waiter that no longer fits is refused with a clear error; nobody enters until the weights fit."""
    mine, other = await world.clients(2)
    holds = [await _take(world, mine) for _ in range(3)]
    heavy = world.start(_take(world, other, 3))
    await world.until_waiting(1)
    light = world.start(_take(world, other))
    await world.until_waiting(2)
    await mine.semaphore(world.key(), permits=3).resize(1)
    with raises(LockError) as raised:
        await heavy
    assert "no room for 3" in str(raised.error)
    for hold in holds:
        assert not light.done()
        hold.check()
        await hold.release()
        await world.sleep(world.soon() / 2)
    async with await light:
        assert await mine.semaphore(world.key(), permits=3).try_acquire() is None


@check()
async def a_smaller_size_is_kept_by_those_who_pass_permits_on(world: World) -> None:
    """A client that was inside with more, and is alone, hands on no more than fit once it has renewed."""
    room = _Room()
    mine, other = await world.clients(2)
    for _ in range(6):
        world.start(room.visit_on(mine.semaphore(world.key(), permits=3, ttl=world.ttl), 0.005))
    await world.until(lambda: room.most == 3)
    await other.semaphore(world.key(), permits=3).resize(1)

    async def is_kept() -> bool:
        room.most = 0
        await world.sleep(0.2 * world.ttl)
        return room.most == 1

    await world.until(is_kept, within=10 * world.ttl)
    assert await is_kept()


@check(43, needs="faults")
async def the_permit_of_a_dead_client_comes_back(world: World) -> None:
    """Within its lease, to whoever waits."""
    dead, other = await world.clients(2)
    hold = await _take(world, dead, 2, ttl=world.ttl)
    await world.sleep(0.5 * world.ttl)
    began = world.now
    await world.crash(dead)
    async with await _take(world, other, 3):
        assert world.now - began <= world.ttl + world.slack
        assert hold.lost


@check()
async def permits_with_a_lease_of_their_own_end_one_by_one(world: World) -> None:
    """One that is not renewed is lost and comes back; the others of the same task are held."""
    client = await world.client()
    async with await _take(world, client, ttl=world.ttl, fair=True) as kept:
        with raises(LockLostError):
            async with await _take(world, client, 2, ttl=world.ttl, renew=False):
                await world.sleep(100 * world.ttl)
        kept.check()
        async with await _take(world, client, 2):
            kept.check()
