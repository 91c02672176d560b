"""What happens to a block whose lock is lost: the `on_lost` promise, case by case."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import Hold, LockClient, LockLostError, NotHeldError
from aiodlock.events import Event, HoldLost, TaskFailed
from aiodlock.testing import FakeClock, Faults
from tests.acceptance import acceptance
from tests.unit.core.body import Body, assert_unharmed


async def test_the_body_is_cancelled_once_and_the_error_leaves_the_block(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """The caller gets LockLostError with key and reason, and is otherwise as it was."""
    with pytest.raises(LockLostError, match="'k' was lost: somebody else gave it up") as raised:
        async with locks.lock("k") as hold:
            faults.lose(hold)
            await body.stay()

    assert body.cancels == 1
    assert (raised.value.key, raised.value.reason) == ("k", "somebody else gave it up")
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    assert hold.lost
    assert hold.remaining == 0.0
    await assert_unharmed()


async def test_a_body_that_swallows_the_cancel_is_not_cancelled_again(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """It ends in peace, and then the error leaves the block all the same."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold:
            faults.lose(hold)
            await body.stay_on()

    assert body.cancels == 1
    await assert_unharmed()


async def test_a_hold_entered_as_a_block_is_cancelled_too(locks: LockClient, faults: Faults, body: Body) -> None:
    """`async with hold` promises what `async with lock` does."""
    hold = await locks.lock("k").acquire()
    with pytest.raises(LockLostError):
        async with hold:
            faults.lose(hold)
            await body.stay()

    assert body.cancels == 1
    await assert_unharmed()


async def test_the_bodys_own_error_is_kept_with_a_note(locks: LockClient, faults: Faults, body: Body) -> None:
    """What went wrong in the body comes first; the loss is told as a note on it."""
    with pytest.raises(ValueError, match="mine") as raised:
        async with locks.lock("k") as hold:
            faults.lose(hold)
            try:
                await body.stay()
            except asyncio.CancelledError:
                raise ValueError("mine") from None

    assert raised.value.__notes__ == [
        "lock 'k' was lost: somebody else gave it up; check its fence at the resource, then acquire again"
    ]
    await assert_unharmed()


async def test_an_error_before_the_cancel_arrives_is_kept_too(locks: LockClient, faults: Faults) -> None:
    """The body fails by itself while the loss is on its way."""
    with pytest.raises(ValueError, match="mine") as raised:
        async with locks.lock("k") as hold:
            faults.lose(hold)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(1)
            await asyncio.sleep(1)
            raise ValueError("mine")

    assert len(raised.value.__notes__) == 1
    await assert_unharmed()


async def test_what_was_lost_is_left_on_the_server_when_its_block_ends(
    locks: LockClient, other: LockClient, faults: Faults, body: Body
) -> None:
    """A lost hold's ticket is given up with its block; nobody has to wait for its life to end."""
    with pytest.raises(LockLostError, match="lease ended"):
        async with locks.lock("k", ttl=30):
            faults.go_down()
            with pytest.raises(asyncio.CancelledError):
                await body.stay()
            assert await other.lock("k").locked()  # the client stops believing before the server does
            faults.come_back()
    assert [row async for row in other.inspect()] == []


# --- a frozen process -------------------------------------------------------------------------------------------


@acceptance(21)
async def test_a_frozen_process_says_lost_before_any_request(frozen: LockClient, clock: FakeClock) -> None:
    """Past the deadline the hold is lost by the local clock alone."""
    faults = Faults(frozen)
    hold = await frozen.lock("k", ttl=30).acquire()
    sent = len(faults.sent)

    clock.jump(29.0)
    assert not hold.lost
    clock.jump(1.0)

    assert hold.lost
    assert hold.remaining == 0.0
    with pytest.raises(LockLostError, match="its lease ended before a renewal was confirmed"):
        hold.check()
    assert len(faults.sent) == sent
    with pytest.raises(LockLostError):
        await hold.release()


async def test_a_frozen_block_that_ends_without_an_await_raises_and_leaks_nothing(
    frozen: LockClient, clock: FakeClock
) -> None:
    """The loss is noticed by the exit itself: no cancel is sent, none arrives later."""
    with pytest.raises(LockLostError):
        async with frozen.lock("k"):
            clock.jump(60)
    await clock.advance(0)
    await assert_unharmed()


async def test_a_body_that_asks_is_cancelled_at_its_next_await(
    frozen: LockClient, clock: FakeClock, body: Body
) -> None:
    """Asking whether it is lost must not take the place of the cancel."""
    with pytest.raises(LockLostError):
        async with frozen.lock("k") as hold:
            clock.jump(60)
            assert hold.lost
            await body.stay()

    assert body.cancels == 1
    await assert_unharmed()


async def test_a_body_that_asks_and_ends_without_an_await_leaks_no_cancel(frozen: LockClient, clock: FakeClock) -> None:
    """The cancel that was to come is not sent into the caller's next await."""
    with pytest.raises(LockLostError):
        async with frozen.lock("k") as hold:
            clock.jump(60)
            assert hold.lost
    await assert_unharmed()


async def test_the_watchdog_cancels_a_block_that_thaws(frozen: LockClient, clock: FakeClock, body: Body) -> None:
    """When the loop runs again, the block ends without being asked."""

    async def work() -> None:
        async with frozen.lock("k"):
            await body.stay()

    task = asyncio.create_task(work())
    await body.inside.wait()
    clock.jump(60)
    await clock.advance(0)
    assert isinstance(task.exception(), LockLostError)
    assert body.cancels == 1


# --- instead of a cancel ----------------------------------------------------------------------------------------


async def test_flag_lets_the_body_run(locks: LockClient, faults: Faults, body: Body) -> None:
    """It is not cancelled; leaving the block tells it."""
    with pytest.raises(LockLostError):
        async with locks.lock("k", on_lost="flag") as hold:
            faults.lose(hold)
            await body.stay(1.0)
            assert hold.lost

    assert body.cancels == 0
    await assert_unharmed()


async def test_a_function_is_called_with_the_hold(locks: LockClient, faults: Faults, body: Body) -> None:
    """On the loop, once, instead of the cancel."""
    told: list[Hold] = []
    with pytest.raises(LockLostError):
        async with locks.lock("k", on_lost=told.append) as hold:
            faults.lose(hold)
            await body.stay(1.0)

    assert told == [hold]
    assert body.cancels == 0


async def test_an_error_of_that_function_becomes_an_event(
    locks: LockClient, faults: Faults, body: Body, events: list[Event]
) -> None:
    """It harms nobody."""

    def fail(hold: Hold) -> None:
        raise ValueError(hold.key)

    with pytest.raises(LockLostError):
        async with locks.lock("k", on_lost=fail) as hold:
            faults.lose(hold)
            await body.stay(1.0)

    assert TaskFailed("on_lost of 'k'", "ValueError('k')") in events


async def test_a_hold_outside_a_block_only_flags(locks: LockClient, faults: Faults, events: list[Event]) -> None:
    """The task that acquired it is not cancelled."""
    hold = await locks.lock("k").acquire()
    faults.lose(hold)
    await asyncio.sleep(100)

    assert hold.lost
    assert [event for event in events if isinstance(event, HoldLost)] == [
        HoldLost("lock", "k", hold.fence, "somebody else gave it up")
    ]
    with pytest.raises(LockLostError):
        hold.check()
    with pytest.raises(LockLostError):
        await hold.extend(5)
    with pytest.raises(LockLostError):
        async with hold:
            pytest.fail("not reached")
    with pytest.raises(LockLostError):
        await hold.release()
    with pytest.raises(NotHeldError):
        await hold.release()


async def test_every_hold_outside_a_block_is_told(locks: LockClient, faults: Faults) -> None:
    """Acquiring twice gives two holds, and both functions are called."""
    told: list[Hold] = []
    lock = locks.lock("k", on_lost=told.append)
    first, second = await lock.acquire(), await lock.acquire()
    faults.lose(first)
    await first.wait_lost()
    await second.wait_lost()
    await asyncio.sleep(0)
    assert set(told) == {first, second}


async def test_a_lost_hold_can_be_acquired_anew(locks: LockClient, faults: Faults) -> None:
    """Outside a block nothing has to be left first; the new hold is another ownership."""
    lock = locks.lock("k")
    old = await lock.acquire()
    faults.lose(old)
    await old.wait_lost()
    async with lock as new:
        assert new.fence > old.fence
        with pytest.raises(LockLostError):
            await old.release()
        assert not new.lost
        assert await lock.locked()


async def test_wait_lost_ends_with_the_loss(locks: LockClient, faults: Faults) -> None:
    """Any number of tasks may wait for it, and it is at once for a lost hold."""
    hold = await locks.lock("k").acquire()
    watchers = [asyncio.create_task(hold.wait_lost()) for _ in range(3)]
    await asyncio.sleep(100)
    assert not any(watcher.done() for watcher in watchers)
    watchers[0].cancel()
    faults.lose(hold)
    await asyncio.wait(watchers)
    await hold.wait_lost()
    assert [watcher.cancelled() for watcher in watchers] == [True, False, False]
