"""Leases: how long a lock is held without its holder, with it, and after it."""

from __future__ import annotations

import asyncio

from aiodlock.errors import LockLostError
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_cancelled_acquire_leaves_nothing",
    "a_dead_holder_costs_at_most_its_lease",
    "a_lease_can_be_extended",
    "a_lease_does_not_leak_into_the_next",
    "a_renewed_hold_and_its_waiter_outlive_any_lease",
    "a_stale_write_is_refused_by_its_fence",
    "an_inner_acquire_keeps_the_outer_lease",
    "fences_grow_over_every_kind_of_end",
    "max_hold_ends_a_renewed_hold",
    "nothing_is_renewed_after_a_release",
    "releasing_after_the_end_says_lost_and_leaves_the_new_holder",
    "the_end_of_a_lease_frees_the_lock_and_wakes_the_next",
    "the_lease_is_told_and_not_overstated",
]


@check(6)
async def the_end_of_a_lease_frees_the_lock_and_wakes_the_next(world: World) -> None:
    """Nobody releases it: a parked waiter is inside soon after the end, not before."""
    mine, other = await world.clients(2)
    hold = await mine.lock(world.key(), ttl=world.ttl, renew=False).acquire()
    began = world.now
    waiter = world.start(other.lock(world.key()).acquire())
    await world.until_waiting(1)
    next_ = await waiter
    assert hold.lost
    assert 0.95 * world.ttl <= world.now - began <= world.ttl + world.slack
    assert next_.fence > hold.fence
    await next_.release()


@check(7)
async def releasing_after_the_end_says_lost_and_leaves_the_new_holder(world: World) -> None:
    """The late release is told, and the lock is still the other's."""
    mine, other = await world.clients(2)
    late = await mine.lock(world.key(), ttl=world.ttl, renew=False).acquire()
    async with other.lock(world.key()) as hold:
        with raises(LockLostError):
            await late.release()
        await world.sleep(0.2 * world.ttl)
        hold.check()
        assert await mine.lock(world.key()).holder() == other.name


@check(8)
async def an_inner_acquire_keeps_the_outer_lease(world: World) -> None:
    """Re-entering with another lease, and leaving again, changes neither its length nor its renewal."""
    client = await world.client()
    outer = client.lock(world.key(), ttl=4 * world.ttl)
    inner = client.lock(world.key(), ttl=world.ttl, renew=False)
    async with outer as hold:
        async with inner as again:
            assert again.fence == hold.fence
        (row,) = await world.rows()
        assert row.remaining > 3 * world.ttl
        await world.sleep(2 * world.ttl)
        hold.check()
        assert hold.remaining > 2 * world.ttl


@check(9)
async def a_lease_does_not_leak_into_the_next(world: World) -> None:
    """A long lease before makes a short one after it no longer."""
    client = await world.client()
    async with client.lock(world.key(), ttl=60 * world.ttl):
        pass
    hold = await client.lock(world.key(), ttl=world.ttl, renew=False).acquire()
    (row,) = await world.rows()
    assert row.remaining <= world.ttl
    await world.sleep(world.ttl + world.slack)
    assert hold.lost
    assert await world.rows() == []


@check(10)
async def the_lease_is_told_and_not_overstated(world: World) -> None:
    """The client believes in a little less than the server gives."""
    client = await world.client()
    async with client.lock(world.key(), ttl=10 * world.ttl, renew=False) as hold:
        (row,) = await world.rows()
        assert 9 * world.ttl < hold.remaining < row.remaining <= 10 * world.ttl


@check(11, needs="faults")
async def a_dead_holder_costs_at_most_its_lease(world: World) -> None:
    """Its process is gone; the next one is inside within one ttl."""
    mine, other = await world.clients(2)
    hold = await mine.lock(world.key(), ttl=world.ttl).acquire()
    await world.sleep(0.5 * world.ttl)
    began = world.now
    await world.crash(mine)
    async with other.lock(world.key()) as next_:
        assert world.now - began <= world.ttl + world.slack
        assert hold.lost
        assert next_.fence > hold.fence


@check(17, 33)
async def a_renewed_hold_and_its_waiter_outlive_any_lease(world: World) -> None:
    """Held for three leases it is still held, and who waits so long still stands in line."""
    mine, other = await world.clients(2)
    ttl = 2 * world.ttl
    async with mine.lock(world.key(), ttl=ttl) as hold:
        waiter = world.start(other.lock(world.key(), ttl=ttl, fair=True).acquire())
        await world.until_waiting(1)
        (ticket,) = [row.id for row in await world.rows() if not row.inside]
        await world.sleep(3 * ttl)
        hold.check()
        assert [(row.id, row.owner) for row in await world.rows() if not row.inside] == [(ticket, other.name)]
    await (await waiter).release()


@check(18)
async def nothing_is_renewed_after_a_release(world: World) -> None:
    """Also not one whose renewal was just due: the line stays empty."""
    client = await world.client()
    for held in (0.0, 0.34):
        async with client.lock(world.key(), ttl=world.ttl):
            await world.sleep(held * world.ttl)
        assert await world.rows() == []
    await world.sleep(1.5 * world.ttl)
    assert await world.rows() == []


@check(19)
async def a_cancelled_acquire_leaves_nothing(world: World) -> None:
    """Whenever it is cancelled: no ticket is left, none comes later, and the next one gets in at once."""
    client = await world.client()
    other = await world.client()
    for steps in range(12):
        for taken in (False, True):
            blocker = await other.lock(world.key()).acquire() if taken else None
            task = world.start(client.lock(world.key(), ttl=world.ttl).acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                await (await task).release()
            task.cancel()
            await asyncio.wait({task})
            if blocker is not None:
                await blocker.release()
            async with other.lock(world.key(), wait=0.5 * world.ttl):
                pass
    await world.sleep(1.5 * world.ttl)
    assert await world.rows() == []


@check(22)
async def max_hold_ends_a_renewed_hold(world: World) -> None:
    """The block is cancelled at that time, and others get in."""
    mine, other = await world.clients(2)
    began = world.now
    with raises(LockLostError):
        async with mine.lock(world.key(), ttl=world.ttl, max_hold=1.5 * world.ttl):
            await world.sleep(100 * world.ttl)
    assert 1.4 * world.ttl <= world.now - began <= 1.5 * world.ttl + world.slack
    async with other.lock(world.key(), wait=world.slack):
        pass


@check()
async def a_lease_can_be_extended(world: World) -> None:
    """At least so long from now; never shortened."""
    client = await world.client()
    hold = await client.lock(world.key(), ttl=world.ttl, renew=False).acquire()
    await hold.extend(3 * world.ttl)
    await hold.extend(world.ttl)
    (row,) = await world.rows()
    assert 2.5 * world.ttl < row.remaining <= 3 * world.ttl
    await world.sleep(1.5 * world.ttl)
    await hold.release()
    assert await world.rows() == []


@check(41)
async def fences_grow_over_every_kind_of_end(world: World) -> None:
    """Release, expiry, force_release and another client; re-entry keeps its fence."""
    mine, other = await world.clients(2)
    fences = []
    for client in (mine, other, mine):
        async with client.lock(world.key()) as hold, client.lock(world.key()) as again:
            assert again.fence == hold.fence
            fences.append(hold.fence)
    expired = await mine.lock(world.key(), ttl=world.ttl, renew=False).acquire()
    fences.append(expired.fence)
    await world.sleep(world.ttl + world.slack)
    forced = await other.lock(world.key(), ttl=world.ttl).acquire()
    fences.append(forced.fence)
    await mine.lock(world.key()).force_release()
    await forced.wait_lost()
    async with mine.lock(world.key()) as last:
        fences.append(last.fence)
    assert fences == sorted(set(fences))
    assert all(0 < fence < 1 << 63 for fence in fences)


@check(42)
async def a_stale_write_is_refused_by_its_fence(world: World) -> None:
    """A holder that slept over the end of its lease writes too late: the store has seen a larger fence."""
    mine, other = await world.clients(2)
    accepted: list[int] = []

    def write(fence: int) -> bool:
        if accepted and fence < accepted[-1]:
            return False
        accepted.append(fence)
        return True

    sleeper = await mine.lock(world.key(), ttl=world.ttl, renew=False).acquire()
    assert write(sleeper.fence)
    async with other.lock(world.key()) as hold:
        assert write(hold.fence)
        assert not write(sleeper.fence)
        assert write(hold.fence)
