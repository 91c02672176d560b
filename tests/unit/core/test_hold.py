"""A hold outside blocks: its states, its lease, its releases, and what becomes of one that nobody can release."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
from datetime import UTC, datetime

import pytest

from aiodlock import (
    BackendUnavailableError,
    ConfigurationError,
    Hold,
    LockClient,
    LockLostError,
    NotHeldError,
)
from aiodlock._core.fence import split
from aiodlock._core.ownership import HoldState
from aiodlock.events import Event, HoldAbandoned, HoldLost, LeaveUnconfirmed
from aiodlock.testing import Faults, settle
from tests.acceptance import acceptance
from tests.unit.core.body import Body


async def holders(client: LockClient) -> list[str]:
    return [row.owner async for row in client.inspect() if row.inside]


# --- states ------------------------------------------------------------------------------------------------


async def test_only_the_written_moves_are_possible(locks: LockClient) -> None:
    """coming to held, held to lost or released, lost to released, and nothing back."""
    legal = {("coming", "held"), ("held", "lost"), ("held", "released"), ("lost", "released")}
    for before, after in itertools.product(HoldState, HoldState):
        async with locks.lock("k") as hold:
            hold._state = before
            if (before.value, after.value) in legal:
                hold._move(after)
                assert repr(hold) == f"<Hold 'k' {after.value}>"
            else:
                with pytest.raises(AssertionError, match=f"cannot become {after.value}"):
                    hold._move(before if before is after else after)
            hold._state = HoldState.HELD


async def test_what_a_hold_tells(locks: LockClient) -> None:
    """Key, owner, time, fence and what is left of the lease."""
    before = datetime.now(UTC)
    hold = await locks.lock("k", ttl=30).acquire()
    assert (hold.key, hold.owner, hold.lost, hold.revoked) == ("k", "web-1", False, False)
    assert before <= hold.acquired_at <= datetime.now(UTC)
    assert 29.6 < hold.remaining <= 29.7  # a hundredth and 2 ms are kept back for drift
    assert 0 < hold.fence < 1 << 63
    assert split(hold.fence)[1] == 1
    hold.check()
    await hold.release()
    assert hold.remaining == 0.0
    assert not hold.lost


async def test_a_released_hold_never_says_lost(locks: LockClient) -> None:
    """Neither one whose ticket left nor one whose place was handed on."""

    async def enter() -> None:
        async with lock as hold:
            seen.append(hold)
            await asyncio.sleep(0)

    lock, seen = locks.lock("k", ttl=3), []
    await asyncio.gather(enter(), enter(), enter())
    await asyncio.sleep(1_000)
    assert [hold.lost for hold in seen] == [False] * 3


# --- release -----------------------------------------------------------------------------------------------


@acceptance(14)
async def test_a_second_release_raises(locks: LockClient) -> None:
    """It names the way out, and changes nothing."""
    hold = await locks.lock("k").acquire()
    await hold.release()
    async with locks.lock("k"):
        for again in (hold.release, hold.__aenter__):
            with pytest.raises(NotHeldError, match="'k' was released already: acquire again"):
                await again()
        with pytest.raises(NotHeldError):
            hold.release_nowait()
        assert await locks.lock("k").locked()


async def test_release_from_another_task(locks: LockClient) -> None:
    """A hold is not bound to the task that acquired it."""
    hold = await locks.lock("k").acquire()
    await asyncio.create_task(hold.release())
    assert await holders(locks) == []


async def test_release_waits_for_the_server(locks: LockClient, other: LockClient) -> None:
    """When it returns, others see the lock free."""
    hold = await locks.lock("k").acquire()
    await hold.release()
    async with other.lock("k", wait=0):
        assert await holders(locks) == ["web-2"]


async def test_release_nowait_tells_the_server_in_the_background(locks: LockClient, other: LockClient) -> None:
    """It is a plain function; the hold is released at once."""
    hold = await locks.lock("k").acquire()
    hold.release_nowait()
    with pytest.raises(NotHeldError):
        hold.check()
    await settle()
    assert await holders(other) == []


@acceptance(14)
async def test_release_with_an_unreachable_server_raises_nothing(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """It waits a second, goes on in the background, and succeeds when the server is back."""
    hold = await locks.lock("k", ttl=30).acquire()
    faults.go_down()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await hold.release()
    assert loop.time() - began == pytest.approx(1.0)
    await asyncio.sleep(5)
    assert await holders(other) == ["web-1"]
    faults.come_back()
    await asyncio.sleep(10)
    assert await holders(other) == []


async def test_leaving_ends_with_the_lease_and_an_event(locks: LockClient, faults: Faults, events: list[Event]) -> None:
    """A server that stays away is not asked for ever."""
    hold = await locks.lock("k", ttl=30).acquire()
    faults.go_down()
    hold.release_nowait()
    await asyncio.sleep(29)
    assert LeaveUnconfirmed("lock", "k") not in events
    await asyncio.sleep(10)
    assert events.count(LeaveUnconfirmed("lock", "k")) == 1
    sent = len(faults.sent)
    await asyncio.sleep(100)
    assert len(faults.sent) == sent


async def test_a_leave_lost_in_silence_is_sent_again(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """A half-open connection swallows the request; the next connection carries it."""
    hold = await locks.lock("k", ttl=30).acquire()
    faults.fall_silent()
    hold.release_nowait()
    await asyncio.sleep(5)
    faults.come_back()
    await asyncio.sleep(5)
    assert await holders(other) == []


async def test_a_cancelled_release_releases(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """The cancellation goes on afterwards."""
    hold = await locks.lock("k").acquire()
    faults.go_down()
    task = asyncio.create_task(hold.release())
    await asyncio.sleep(0.1)
    faults.come_back()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert await holders(other) == []


# --- lease -------------------------------------------------------------------------------------------------


async def test_a_hold_is_renewed_at_a_third_of_its_ttl(locks: LockClient, faults: Faults) -> None:
    """Three times the ttl later it is still held, by about three renewals per ttl."""
    hold = await locks.lock("k", ttl=30).acquire()
    await asyncio.sleep(90)
    hold.check()
    assert hold.remaining > 19
    assert 9 <= faults.sent.count("renew") <= 11
    await hold.release()


async def test_a_fixed_lease_is_not_renewed(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """It ends by itself, and is flagged before the server gives the lock to somebody else."""
    hold = await locks.lock("k", ttl=30, renew=False).acquire()
    waiter = asyncio.create_task(other.lock("k").acquire())
    await asyncio.sleep(29.5)
    hold.check()
    await asyncio.sleep(0.4)
    assert hold.lost
    assert not waiter.done()
    await asyncio.sleep(0.2)
    assert (await waiter).fence > hold.fence
    assert "renew" not in faults.sent


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, True, "5", None, 86_401])
async def test_extend_checks_its_ttl(locks: LockClient, faults: Faults, ttl: float) -> None:
    """Before any request."""
    async with locks.lock("k") as hold:
        sent = len(faults.sent)
        with pytest.raises(ConfigurationError, match="ttl="):
            await hold.extend(ttl)
        assert len(faults.sent) == sent


async def test_extend_makes_a_fixed_lease_longer(locks: LockClient) -> None:
    """At least ttl from now; a longer life is not shortened."""
    hold = await locks.lock("k", ttl=10, renew=False).acquire()
    await hold.extend(100)
    assert 98 < hold.remaining < 100
    await hold.extend(5)
    assert 98 < hold.remaining < 100
    await asyncio.sleep(90)
    hold.check()
    await asyncio.sleep(10)
    assert hold.lost


async def test_extend_of_a_renewed_hold_does_not_stop_its_renewal(locks: LockClient) -> None:
    """The long life is used up first, then the ttl is renewed as before."""
    hold = await locks.lock("k", ttl=10).acquire()
    await hold.extend(100)
    await asyncio.sleep(500)
    hold.check()
    assert hold.remaining < 10
    await hold.release()


async def test_extend_is_capped_by_max_hold(locks: LockClient) -> None:
    """The longest hold in all stays the longest."""
    hold = await locks.lock("k", ttl=10, max_hold=20).acquire()
    await hold.extend(100)
    assert hold.remaining == pytest.approx(20)
    await asyncio.sleep(21)
    assert hold.lost


async def test_extend_without_an_answer_says_so(locks: LockClient, faults: Faults) -> None:
    """The hold is as it was; nobody may believe in more time than was confirmed."""
    hold = await locks.lock("k", ttl=10).acquire()
    faults.go_down()
    with pytest.raises(BackendUnavailableError):
        await hold.extend(100)
    assert hold.remaining < 10
    faults.come_back()
    await asyncio.sleep(50)
    await hold.release()


async def test_an_extend_that_failed_does_not_happen_later(locks: LockClient, faults: Faults) -> None:
    """A fixed lease ends when it would have ended."""
    hold = await locks.lock("k", ttl=10, renew=False).acquire()
    faults.go_down()
    with pytest.raises(BackendUnavailableError, match="'k' was not extended: its lease is as it was"):
        await hold.extend(100)
    faults.come_back()
    await asyncio.sleep(5)
    assert hold.remaining < 5
    await hold.release()


async def test_extend_with_half_an_answer_says_so(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a part of the server is silent the lease was not extended."""

    async def silent(tickets: object) -> list[None]:
        return [None]

    async with locks.lock("k", ttl=10) as hold:
        monkeypatch.setattr(locks.backend, "renew", silent)
        with pytest.raises(BackendUnavailableError, match="'k'"):
            await hold.extend(100)


async def test_max_hold_ends_a_renewed_hold(locks: LockClient, body: Body, events: list[Event]) -> None:
    """The body is cancelled at that time, and the reason says why."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(LockLostError, match="held as long as max_hold allows"):
        async with locks.lock("k", ttl=10, max_hold=25) as hold:
            await body.stay()
    assert loop.time() - began == pytest.approx(25)
    assert HoldLost("lock", "k", hold.fence, "it was held as long as max_hold allows") in events
    assert await holders(locks) == []


async def test_max_hold_is_kept_with_a_silent_server(locks: LockClient, faults: Faults, body: Body) -> None:
    """A renewal without an answer does not move it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(LockLostError, match="max_hold"):
        async with locks.lock("k", ttl=30, max_hold=11):
            await asyncio.sleep(9)
            faults.fall_silent()
            await body.stay()
    assert loop.time() - began == pytest.approx(11, abs=0.01)


async def test_a_max_hold_shorter_than_the_ttl(locks: LockClient, body: Body) -> None:
    """The deadline is the earlier of the two."""
    with pytest.raises(LockLostError):
        async with locks.lock("k", ttl=30, max_hold=2) as hold:
            assert hold.remaining == pytest.approx(2)
            await body.stay()


# --- abandoned ---------------------------------------------------------------------------------------------


async def test_a_hold_whose_task_is_done_is_renewed_no_more(
    locks: LockClient, other: LockClient, events: list[Event]
) -> None:
    """It ends by its lease, an event tells it, and the next in line gets in."""

    async def forget() -> object:
        return await locks.lock("k", ttl=30).acquire()

    hold = await asyncio.create_task(forget())
    waiter = asyncio.create_task(other.lock("k").acquire())
    await asyncio.sleep(60)
    assert waiter.done()
    assert hold.lost
    assert [event for event in events if isinstance(event, HoldAbandoned)] == [HoldAbandoned("lock", "k", hold.fence)]


async def test_a_hold_that_was_forgotten_is_renewed_when_a_task_enters(locks: LockClient) -> None:
    """It had no task for a while; now it has one, and its block runs."""

    async def forget() -> Hold:
        return await locks.lock("k", ttl=30).acquire()

    hold = await asyncio.create_task(forget())
    await asyncio.sleep(29)
    async with hold:
        await asyncio.sleep(100)
        assert not hold.lost


async def test_a_hold_entered_inside_its_own_block_is_released_by_that(locks: LockClient, other: LockClient) -> None:
    """As often as it was entered it is left; the outermost block gives the lock back."""
    async with locks.lock("k") as hold:
        async with hold, hold:
            pass
        assert await holders(other) == ["web-1"]
    assert await holders(other) == []


async def test_what_a_child_is_inside_of_can_be_released_inside_the_block(locks: LockClient, other: LockClient) -> None:
    """Leaving the block is a no-op then; the child is the last one out."""

    async def child() -> None:
        async with hold.reenter():
            inside.set()
            await asyncio.sleep(1)

    inside = asyncio.Event()
    async with locks.lock("k") as hold:
        task = asyncio.create_task(child())
        await inside.wait()
        await hold.release()
    assert await holders(other) == ["web-1"]
    await task
    assert await holders(other) == []


async def test_waiting_for_the_loss_of_what_was_released_raises(locks: LockClient) -> None:
    """It would never end."""
    hold = await locks.lock("k").acquire()
    await hold.release()
    with pytest.raises(NotHeldError):
        await hold.wait_lost()


async def test_entering_makes_the_entering_task_the_owner(locks: LockClient, other: LockClient) -> None:
    """`wait_for` of 3.11 acquires in a task of its own, which is done at once."""
    hold = await asyncio.wait_for(locks.lock("k", ttl=30).acquire(), 5)
    async with hold:
        await asyncio.sleep(200)
        async with locks.lock("k"):  # and it re-enters
            hold.check()
    assert await holders(other) == []


async def test_a_hold_is_renewed_while_a_child_is_inside(locks: LockClient) -> None:
    """Every task inside counts, also those that came by `reenter`."""

    async def work() -> None:
        async with hold.reenter():
            await asyncio.sleep(200)
            hold.check()

    async def begin() -> asyncio.Task[None]:
        nonlocal hold
        hold = await locks.lock("k", ttl=30).acquire()
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        return task

    hold = None
    child = await asyncio.create_task(begin())
    await child
    await hold.release()


async def test_a_collected_hold_is_renewed_no_more(locks: LockClient, other: LockClient, events: list[Event]) -> None:
    """Dropping it is a mistake: a warning, an event, and the lease ends."""
    hold = await locks.lock("k", ttl=30).acquire()
    fence = hold.fence
    with pytest.warns(ResourceWarning, match="'k' was dropped without release"):
        del hold
        gc.collect()
    await asyncio.sleep(0)
    assert HoldAbandoned("lock", "k", fence) in events
    await asyncio.sleep(29)
    assert await holders(other) == ["web-1"]
    await asyncio.sleep(1)
    assert await holders(other) == []


async def test_dropping_one_of_two_holds_leaves_the_other(locks: LockClient, other: LockClient) -> None:
    """What is left is renewed, and its release gives the lock back."""
    lock = locks.lock("k", ttl=30)
    first, second = await lock.acquire(), await lock.acquire()
    with pytest.warns(ResourceWarning):
        del second
        gc.collect()
    await asyncio.sleep(200)
    first.check()
    await first.release()
    assert await holders(other) == []


async def test_what_a_child_drops_is_not_its_parents(locks: LockClient) -> None:
    """The owner is inside as before, and enters again."""

    async def child(hold: Hold) -> None:
        async with hold.reenter():
            await lock.acquire()
            gc.collect()

    lock = locks.lock("k", wait=0)
    with pytest.warns(ResourceWarning):
        async with lock as hold:
            await asyncio.create_task(child(hold))
            async with lock:
                pass


async def test_dropping_a_released_hold_is_fine(locks: LockClient) -> None:
    """Also while the same task holds the lock through another one."""
    lock = locks.lock("k", ttl=30)
    first, second = await lock.acquire(), await lock.acquire()
    await second.release()
    del second
    gc.collect()
    await asyncio.sleep(200)
    first.check()
    await first.release()
    del first
    gc.collect()
