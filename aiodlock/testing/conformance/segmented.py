"""The segmented lock: one key as many locks, by user, whichever is free, or all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiodlock.client import LockClient
from aiodlock.errors import AcquireTimeoutError, ConfigurationError, LockLostError
from aiodlock.locks.multi import MultiHold
from aiodlock.locks.segmented import SegmentedLock, SegmentHold
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "WAYS",
    "a_segment_is_lost_with_the_number",
    "another_number_comes_after_every_hold_of_the_first",
    "another_number_of_segments_is_refused",
    "any_segment_is_entered_in_the_order_of_asking",
    "any_segment_is_whichever_is_free_first",
    "the_number_can_change_when_nobody_uses_the_key",
    "the_whole_key_is_all_segments",
    "two_users_of_one_segment_are_independent",
    "users_of_different_segments_do_not_meet",
    "waiting_for_any_segment_leaves_nothing",
    "who_may_steal_takes_the_next_segment",
]

_Ask = Callable[[LockClient, SegmentedLock], Awaitable[Any]]

WAYS: dict[str, _Ask] = {
    "lock": lambda client, hot: hot.lock("u").acquire(),
    "block": lambda client, hot: hot.lock("u").__aenter__(),
    "try": lambda client, hot: hot.lock("u").try_acquire(),
    "run": lambda client, hot: hot.lock("u").run(int),
    "steal": lambda client, hot: hot.lock("u", steal=True).acquire(),
    "any": lambda client, hot: hot.any().acquire(),
    "try any": lambda client, hot: hot.any().try_acquire(),
    "all": lambda client, hot: hot.all().acquire(),
    "multi": lambda client, hot: client.multi(hot._locks[0], client.lock(f"{hot.key}+")).acquire(),
}


class _Keeper:
    """A task that is inside until it is told to leave."""

    hold: SegmentHold

    def __init__(self) -> None:
        self.inside, self.leave = asyncio.Event(), asyncio.Event()

    async def keep(self, lock: Any) -> None:
        async with lock as self.hold:
            self.inside.set()
            await self.leave.wait()


async def _hot(world: World, count: int = 2, **settings: Any) -> list[SegmentedLock]:
    return [client.segmented(world.key(), segments=3, **settings) for client in await world.clients(count)]


async def _ask(ask: _Ask, client: LockClient, hot: SegmentedLock) -> Any:
    return await ask(client, hot)


def _users(hot: SegmentedLock) -> list[str]:
    """Return a user of each segment."""
    found: dict[int, str] = {}
    for number in range(100):
        found.setdefault(hot.segment_of(f"user-{number}"), f"user-{number}")
    return [found[segment] for segment in range(hot.segments)]


@check()
async def users_of_different_segments_do_not_meet(world: World) -> None:
    """Each of three is inside at once; a second user of a segment waits, whichever client it comes from."""
    mine, other = await _hot(world)
    users = _users(mine)
    async with mine.lock(users[0]) as zero, other.lock(users[1]) as one, mine.lock(users[2]) as two:
        assert [hold.segment for hold in (zero, one, two)] == [0, 1, 2]
        assert {hold.key for hold in (zero, one, two)} == {world.key()}
        assert await other.lock(users[0]).try_acquire() is None
        assert await other.lock(users[0]).holder() == zero.owner
    assert not await mine.all().locked()


@check(51)
async def two_users_of_one_segment_are_independent(world: World) -> None:
    """In one task each has an entry of its own, and the last one out gives the segment up; two tasks exclude."""
    mine, other = await _hot(world)
    ours = [f"user-{n}" for n in range(100) if mine.segment_of(f"user-{n}") == 1]
    first, second = await mine.lock(ours[0]).acquire(), await mine.lock(ours[1]).acquire()
    again = await mine.lock(ours[0]).acquire()
    assert first.fence == second.fence == again.fence
    assert await world.start(mine.lock(ours[2]).try_acquire()) is None
    for hold in (first, again):
        await hold.release()
        second.check()
        assert await other.lock(ours[2]).try_acquire() is None
    await second.release()
    async with other.lock(ours[2]) as hold:
        assert hold.fence > second.fence


@check()
async def who_may_steal_takes_the_next_segment(world: World) -> None:
    """The own one where it is free, else any other; nobody waits while a segment is unused, and none is used twice."""
    mine, other = await _hot(world)
    user, keepers = _users(mine)[1], [_Keeper(), _Keeper(), _Keeper()]
    for keeper, hot in zip(keepers, (mine, other, mine), strict=True):
        world.start(keeper.keep(hot.lock(user, steal=True)))
        await keeper.inside.wait()
    assert keepers[0].hold.segment == 1
    assert sorted(keeper.hold.segment for keeper in keepers) == [0, 1, 2]
    assert await other.lock(user, steal=True).try_acquire() is None
    waiter = world.start(other.lock(user, steal=True).acquire())
    await world.until_waiting(2)
    keepers[2].leave.set()
    hold = await waiter
    assert hold.segment == keepers[2].hold.segment
    await hold.release()
    for keeper in keepers:
        keeper.leave.set()


@check()
async def any_segment_is_whichever_is_free_first(world: World) -> None:
    """As many as there are segments get in; the next one gets the first that is given back."""
    *hots, third = await _hot(world, 3)
    keepers = [_Keeper(), _Keeper(), _Keeper()]
    for keeper, hot in zip(keepers, (*hots, hots[0]), strict=True):
        world.start(keeper.keep(hot.any()))
        await keeper.inside.wait()
    assert sorted(keeper.hold.segment for keeper in keepers) == [0, 1, 2]
    assert await third.any().try_acquire() is None
    with raises(AcquireTimeoutError) as raised:
        await third.any().acquire(0.2 * world.ttl)
    assert (raised.error.key, raised.error.waited) == (world.key(), 0.2 * world.ttl)
    waiter = world.start(third.any().acquire())
    await world.until_waiting(3)
    keepers[1].leave.set()
    hold = await waiter
    assert hold.segment == keepers[1].hold.segment
    await world.until_waiting(0)
    await hold.release()
    for keeper in keepers:
        keeper.leave.set()


@check()
async def waiting_for_any_segment_leaves_nothing(world: World) -> None:
    """Cancelled at any moment: no ticket in any segment, and the next one gets in."""
    mine, other = await _hot(world, ttl=world.ttl)
    for steps in range(0, 16, 3):
        for taken in (False, True):
            blocker = await other.all().acquire() if taken else None
            task = world.start(mine.any().acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                await task.result().release()
            if blocker is not None:
                await blocker.release()
            async with other.all():
                pass
    assert {row.kind for row in await world.rows()} <= {"segments"}


@check()
async def any_segment_is_entered_in_the_order_of_asking(world: World) -> None:
    """Of one client's tasks the first to ask is the first to get in."""
    (hot, other), order = await _hot(world), []

    async def enter(number: int) -> None:
        async with hot.any():
            order.append(number)

    async with hot.any():
        pass  # from here on the number of segments is agreed
    async with other.all():
        tasks = []
        for number in range(8):
            tasks.append(world.start(enter(number)))
            await asyncio.sleep(0)
        await world.until_waiting(3)
    await asyncio.gather(*tasks)
    assert order == sorted(order)


@check()
async def the_whole_key_is_all_segments(world: World) -> None:
    """Nobody is in any of them; any() of who holds it enters again."""
    mine, other = await _hot(world)
    async with mine.all() as hold:
        assert [segment.key for segment in hold.holds] == [world.key()] * 3
        assert await other.any().try_acquire() is None
        assert await other.lock("somebody").try_acquire() is None
        async with mine.any() as again:
            assert again.fence in {segment.fence for segment in hold.holds}
    async with other.lock("somebody", steal=True):
        assert await mine.all().try_acquire() is None


@check()
async def another_number_of_segments_is_refused(world: World) -> None:
    """While one number is in use, whoever asks by another one is told, whatever the way; also in the same client."""
    mine, other = await world.clients(2)
    async with mine.segmented(world.key(), segments=8, ttl=world.ttl).lock("u"):
        for client in (other, mine):
            for ask in WAYS.values():
                with raises(ConfigurationError) as raised:
                    await world.start(_ask(ask, client, client.segmented(world.key(), segments=16)))
                assert "in use with 8 segments" in str(raised.error)
    for ask in WAYS.values():
        got = await ask(other, other.segmented(world.key(), segments=8))
        if isinstance(got, SegmentHold | MultiHold):
            await got.release()
        else:
            assert got == 0  # what run(int) returned


@check()
async def the_number_can_change_when_nobody_uses_the_key(world: World) -> None:
    """One ttl after the last use, or when the client is closed; not while a segment is held, however long."""
    mine, other = await world.clients(2)
    wider = other.segmented(world.key(), segments=4, ttl=world.ttl)
    async with mine.segmented(world.key(), segments=2, ttl=world.ttl).lock("u"):
        await world.sleep(1.5 * world.ttl)
        with raises(ConfigurationError):
            await wider.any().acquire()
    await world.until(lambda: _nothing_left(world))
    async with wider.any():
        pass
    await other.aclose()
    async with mine.segmented(world.key(), segments=3).any():
        pass


@check(needs="faults")
async def another_number_comes_after_every_hold_of_the_first(world: World) -> None:
    """Also where its client is cut off and its lease was extended: whoever counts differently finds it lost."""
    mine, other = await world.clients(2)
    hot = mine.segmented(world.key(), segments=2, ttl=world.ttl)
    wider = other.segmented(world.key(), segments=3, ttl=world.ttl)
    async with hot.lock("before"):
        await world.sleep(0.3 * world.ttl)  # the number was agreed on long before the hold began
        hold = await hot.lock("u").acquire()
    await hold.extend(2 * world.ttl)
    world.trouble(mine).go_down()

    async def is_in() -> bool:
        try:
            theirs = await wider.segment(2).try_acquire()
        except ConfigurationError:
            return False
        assert hold.lost
        assert theirs is not None
        await theirs.release()
        return True

    await world.until(is_in)
    world.trouble(mine).come_back()


@check()
async def a_segment_is_lost_with_the_number(world: World) -> None:
    """Somebody ended the agreement, so others may count differently: it is a loss, and the next one agrees again."""
    mine, other = await world.clients(2)
    hot = mine.segmented(world.key(), segments=2, ttl=world.ttl)
    hold = await hot.lock("u").acquire()
    await other.segmented(world.key(), segments=2)._agreement.force_release()
    await hold.wait_lost()
    with raises(LockLostError):
        await hold.release()
    async with hot.lock("u"):
        with raises(ConfigurationError):
            await other.segmented(world.key(), segments=3).any().acquire()


async def _nothing_left(world: World) -> bool:
    return not await world.rows()
