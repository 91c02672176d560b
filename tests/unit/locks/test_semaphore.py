"""The semaphore inside one client: what may be asked for, and how a new size is heard of."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import AcquireTimeoutError, ConfigurationError, LockClient, LockError, NotHeldError, Retry
from aiodlock.events import Event, SizeDiffered
from aiodlock.testing import Faults, settle


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", None, 1 << 31])
async def test_a_count_is_a_positive_integer(locks: LockClient, faults: Faults, count: int) -> None:
    """Anything else is refused before anything is sent."""
    semaphore = locks.semaphore("k", permits=2)
    for call in (semaphore.acquire, semaphore.try_acquire, semaphore.resize):
        with pytest.raises(ConfigurationError):
            await call(count)
    with pytest.raises(ConfigurationError):
        locks.semaphore("k", permits=count)
    assert faults.sent == []


async def test_more_than_there_are_is_an_error_and_not_a_wait(locks: LockClient) -> None:
    """Of try_acquire too: it would never be free."""
    semaphore = locks.semaphore("k", permits=2)
    for call in (semaphore.acquire, semaphore.try_acquire):
        with pytest.raises(LockError, match="no room for 3: resize it"):
            await call(3)
    async with await semaphore.acquire(2) as both:
        assert both.permits == 2


async def test_one_task_has_many_permits_and_leaves_the_innermost_block(locks: LockClient) -> None:
    """Blocks are a stack per task; another task cannot leave for it."""
    semaphore = locks.semaphore("k", permits=3)
    async with semaphore as first:
        async with semaphore as second:
            with pytest.raises(NotHeldError, match="did not enter"):
                await asyncio.create_task(semaphore.__aexit__(None, None, None))
        assert second.is_released
        assert not first.is_released
        assert len(await semaphore.participants()) == 1


async def test_a_permit_keeps_its_id(locks: LockClient) -> None:
    """A child inside by reenter() has the same one; the next ownership of the same ticket has another."""
    semaphore = locks.semaphore("k", permits=1)
    async with semaphore as permit:
        waiter = asyncio.create_task(semaphore.acquire())
        await settle()
        async with permit.reenter() as child:
            assert child.permit == permit.permit
    following = await waiter
    assert following.permit != permit.permit
    assert following.fence == permit.fence + 1
    await following.release()


async def test_permits_pass_on_without_a_round_trip(locks: LockClient, faults: Faults) -> None:
    """Twenty tasks, two permits: two tickets, and not a verb more."""

    async def visit() -> None:
        async with locks.semaphore("k", permits=2):
            await asyncio.sleep(0.01)

    await asyncio.gather(*(visit() for _ in range(20)))
    assert faults.sent == ["join", "join", "leave", "leave"]


async def test_ones_own_tasks_hear_of_a_larger_size_at_once(locks: LockClient, events: list[Event]) -> None:
    """No renewal is waited for; the event tells what was asked for and what was found."""
    semaphore = locks.semaphore("k", permits=1)
    async with semaphore:
        waiter = asyncio.create_task(semaphore.acquire())
        await settle()
        await semaphore.resize(2)
        async with asyncio.timeout(0.1):
            await (await waiter).release()
    assert [event for event in events if isinstance(event, SizeDiffered)] == [SizeDiffered("semaphore", "k", 1, 2)]


async def test_a_smaller_size_is_kept_by_a_client_that_is_alone(locks: LockClient, other: LockClient) -> None:
    """Nobody else waits, so its tickets could be handed on for ever: they have to stand again."""
    inside = most = 0

    async def visit() -> None:
        nonlocal inside, most
        for _ in range(200):
            async with locks.semaphore("k", permits=4, ttl=3):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.1)
                inside -= 1

    tasks = [asyncio.create_task(visit()) for _ in range(8)]
    await asyncio.sleep(0.5)
    assert most == 4
    await other.semaphore("k", permits=4).resize(2)
    await asyncio.sleep(1.2)  # a third of the ttl, and a visit
    most = 0
    await asyncio.sleep(5)
    assert most == 2
    await asyncio.gather(*tasks)


async def test_a_waiter_that_no_longer_fits_is_refused_though_the_call_is_lost(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """It looks now and then, and finds out."""
    async with other.semaphore("k", permits=3):
        heavy = asyncio.create_task(locks.semaphore("k", permits=3).acquire(3))
        light = asyncio.create_task(locks.semaphore("k", permits=3).acquire(2))
        await settle()
        faults.calls = "drop"
        await other.semaphore("k", permits=3).resize(2)
        with pytest.raises(LockError, match="no room for 3"):
            await heavy
        assert not light.done()
        faults.calls = "deliver"
    await (await light).release()


async def test_a_waiter_that_no_longer_fits_is_refused_behind_a_holder_of_its_own(
    locks: LockClient, other: LockClient
) -> None:
    """It has no ticket of its own that the server could refuse."""
    room = locks.semaphore("k", permits=3, ttl=3)
    hold = await room.acquire(3)
    heavy = asyncio.create_task(room.acquire(3))
    await settle()
    await other.semaphore("k", permits=3).resize(2)
    with pytest.raises(LockError, match="no room for 3"):
        await heavy
    await hold.release()


async def test_who_is_let_in_when_the_line_shrank_meanwhile_stands_again(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """The answer that says so comes to a ticket that is one too many by then: it has left when it would be inside."""
    room = locks.semaphore("k", permits=2)
    hold = await room.acquire()
    faults.drop_reply("join")
    second = asyncio.create_task(room.acquire())
    await asyncio.sleep(0)
    await other.semaphore("k", permits=2).resize(1)
    await settle()
    assert not second.done()
    await hold.release()
    await (await second).release()
    assert not await room.locked()


async def test_tries_are_counted_once_for_all_tickets_of_a_client(locks: LockClient, other: LockClient) -> None:
    """Four tasks that retry have as many tries each as one would."""
    all_of_them = await other.semaphore("k", permits=4).acquire(4)
    room = locks.semaphore("k", permits=4, waiting=Retry(times=10, interval=1))
    began = asyncio.get_running_loop().time()
    outcomes = await asyncio.gather(*(room.acquire() for _ in range(4)), return_exceptions=True)
    await all_of_them.release()
    assert [type(outcome) for outcome in outcomes] == [AcquireTimeoutError] * 4
    assert asyncio.get_running_loop().time() - began == pytest.approx(9)


async def test_a_size_without_anybody_is_not_kept(locks: LockClient) -> None:
    """The line is empty: whoever comes first sets it."""
    semaphore = locks.semaphore("k", permits=1)
    await semaphore.resize(3)
    async with semaphore:
        assert await semaphore.try_acquire() is None


async def test_run_takes_a_permit(locks: LockClient) -> None:
    """As many as are free, and none afterwards."""
    semaphore = locks.semaphore("k", permits=1, wait=1)
    async with semaphore:
        with pytest.raises(TimeoutError):
            await semaphore.run(int)
    assert await semaphore.run(lambda: 7) == 7
    await settle()
    assert await semaphore.participants() == []
