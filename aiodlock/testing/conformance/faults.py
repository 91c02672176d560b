"""Faults: what is lost between a client and its server never makes two holders, an orphan, or a task that hangs."""

from __future__ import annotations

import asyncio

from aiodlock.client import LockClient
from aiodlock.errors import AcquireTimeoutError, BackendUnavailableError, LockLostError
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_parked_waiter_looks_after_a_reconnect",
    "a_release_whose_answer_is_lost_is_done_once",
    "a_server_that_is_down_is_told_in_time",
    "a_waiter_in_doubt_leaves_no_ticket",
    "an_acquire_whose_answer_is_lost_is_one_hold",
    "an_outage_longer_than_the_lease_is_noticed_before_others_get_in",
    "an_outage_shorter_than_the_lease_is_survived",
]


@check(13, needs="faults")
async def an_acquire_whose_answer_is_lost_is_one_hold(world: World) -> None:
    """It is asked again with the same ticket; one release frees the lock."""
    client = await world.client()
    world.trouble(client).drop_reply("join")
    ttl = 2 * world.ttl
    hold = await client.lock(world.key(), ttl=ttl).acquire()
    assert len(await world.rows()) == 1
    await world.sleep(1.5 * ttl)
    hold.check()
    await hold.release()
    assert await world.rows() == []


@check(14, needs="faults")
async def a_release_whose_answer_is_lost_is_done_once(world: World) -> None:
    """It is repeated in the background, and does not remove whoever got in meanwhile."""
    mine, other = await world.clients(2)
    ttl = 2 * world.ttl
    hold = await mine.lock(world.key(), ttl=ttl).acquire()
    waiter = world.start(other.lock(world.key(), ttl=ttl).acquire())
    await world.until_waiting(1)
    world.trouble(mine).drop_reply("leave")
    await hold.release()
    async with await waiter as next_:
        await world.sleep(1.5 * ttl)
        next_.check()
        assert await mine.lock(world.key()).holder() == other.name


@check(15, needs="faults")
async def a_server_that_is_down_is_told_in_time(world: World) -> None:
    """By the wait where there is one, else within a little more than one ttl; by a typed error."""
    client = await world.client()
    lock = client.lock(world.key(), ttl=world.ttl)
    world.trouble(client).go_down()
    began = world.now
    with raises(AcquireTimeoutError):
        await lock.acquire(0.3 * world.ttl)
    assert world.now - began <= 0.3 * world.ttl + world.slack
    for call in (lock.acquire, lock.try_acquire):
        began = world.now
        with raises(BackendUnavailableError):
            await call()
        assert world.now - began <= 1.5 * world.ttl + world.slack
    world.trouble(client).come_back()
    await world.until(lambda: _answers(client))
    async with lock:
        pass


@check(20, needs="faults")
async def an_outage_shorter_than_the_lease_is_survived(world: World) -> None:
    """Renewal resumes, and the hold goes on."""
    client = await world.client()
    trouble = world.trouble(client)
    ttl = 2 * world.ttl
    async with client.lock(world.key(), ttl=ttl) as hold:
        await world.sleep(0.3 * ttl)  # a renewal is due at a third
        trouble.go_down()
        await world.sleep(0.1 * ttl)
        trouble.come_back()
        await world.sleep(2 * ttl)
        hold.check()
    await world.until(lambda: _nothing_left(world), within=ttl)


@check(21, needs="faults")
async def an_outage_longer_than_the_lease_is_noticed_before_others_get_in(world: World) -> None:
    """The body is cancelled by the client's own clock, first; then the next holder enters."""

    async def work() -> None:
        async with mine.lock(world.key(), ttl=world.ttl):
            inside.set()
            try:
                await asyncio.sleep(100 * world.ttl)
            finally:
                order.append("cancelled")

    async def follow() -> None:
        async with other.lock(world.key(), ttl=world.ttl):
            order.append("entered")

    order: list[str] = []
    mine, other = await world.clients(2)
    inside = asyncio.Event()
    block = world.start(work())
    await inside.wait()
    follower = world.start(follow())
    await world.until_waiting(1)
    world.trouble(mine).go_down()
    with raises(LockLostError):
        await block
    await follower
    assert order == ["cancelled", "entered"]
    world.trouble(mine).come_back()


@check(28, needs="faults")
async def a_parked_waiter_looks_after_a_reconnect(world: World) -> None:
    """The call went out while its connection was away: it gets in all the same, soon."""
    mine, other = await world.clients(2)
    hold = await mine.lock(world.key(), ttl=60).acquire()
    waiter = world.start(other.lock(world.key(), ttl=60).acquire())
    await world.until_waiting(1)
    world.trouble(other).go_down()
    await hold.release()
    world.trouble(other).come_back()
    began = world.now
    await (await waiter).release()
    assert world.now - began <= 0.5 + world.slack  # without looking it would be a third of 5 s


@check(32, needs="faults")
async def a_waiter_in_doubt_leaves_no_ticket(world: World) -> None:
    """Its join was done and its answer lost; when it gives up, the ticket goes as well."""
    mine, other = await world.clients(2)
    async with mine.lock(world.key()):
        world.trouble(other).drop_reply("join")
        with raises(AcquireTimeoutError):
            await other.lock(world.key(), ttl=world.ttl).acquire(0.3 * world.ttl)
        await world.until_waiting(0, within=world.slack)
    async with mine.lock(world.key(), wait=world.slack):
        pass


async def _answers(client: LockClient) -> bool:
    try:
        await client.ping()
    except BackendUnavailableError:
        return False
    return True


async def _nothing_left(world: World) -> bool:
    return not await world.rows()
