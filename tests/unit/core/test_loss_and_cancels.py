"""A loss among other cancels: tasks, `asyncio.timeout` and anyio scopes, around a block and inside it.

These run on every supported Python: 3.11, 3.12 and 3.13 keep different books of the cancels of a task.
"""

from __future__ import annotations

import asyncio
import sys

import anyio
import pytest

from aiodlock import Hold, LockClient, LockLostError
from aiodlock.testing import FakeClock, Faults
from tests.unit.core.body import Body, assert_unharmed


@pytest.mark.parametrize("order", ["before", "after", "long after"])
async def test_an_outer_cancel_wins(locks: LockClient, faults: Faults, body: Body, order: str) -> None:
    """Who cancels the task gets a cancelled task, whether the cancel came before or after the loss."""

    async def work() -> None:
        async with locks.lock("k") as hold:
            held.set_result(hold)
            await body.stay_on()

    held: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(work())
    hold = await held
    if order == "before":
        task.cancel("outer")
    faults.lose(hold)
    if order == "long after":
        await asyncio.sleep(0.5)
    if order != "before":
        await asyncio.sleep(0)
        task.cancel("outer")
    await asyncio.wait({task})

    assert task.cancelled()
    assert task.cancelling() == 1


async def test_an_outer_cancel_that_the_body_swallowed_still_wins(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """The books say that somebody else asked the task to end: LockLostError would hide it."""

    async def work() -> None:
        async with locks.lock("k") as hold:
            held.set_result(hold)
            await body.stay_on()
        pytest.fail("not reached")

    held: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(work())
    faults.lose(await held)
    await body.inside.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_cancel_from_before_the_block_is_not_taken_for_an_outer_one(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """A task that swallowed a cancel long ago still gets LockLostError."""

    async def work() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(1)
        async with locks.lock("k") as hold:
            faults.lose(hold)
            await body.stay()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert isinstance(task.exception(), LockLostError)
    assert task.cancelling() == 1


async def test_asyncio_timeout_around_a_lost_block(locks: LockClient, faults: Faults, body: Body) -> None:
    """The loss leaves as it is; the timeout, when it comes later, still works."""
    with pytest.raises(LockLostError):
        async with asyncio.timeout(60):
            async with locks.lock("k") as hold:
                faults.lose(hold)
                await body.stay()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await asyncio.sleep(2)
    await assert_unharmed()


async def test_asyncio_timeout_around_that_ends_with_the_loss(locks: LockClient, faults: Faults, body: Body) -> None:
    """Both in one step of the loop: the outer one wins, and it is a TimeoutError."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            async with locks.lock("k") as hold:
                limit.reschedule(asyncio.get_running_loop().time())
                faults.lose(hold)
                await body.stay()

    assert body.cancels == 1
    await assert_unharmed()


async def test_asyncio_timeout_inside_a_lost_block(locks: LockClient, faults: Faults, body: Body) -> None:
    """The inner limit does not take our cancel for its own."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold, asyncio.timeout(60):
            faults.lose(hold)
            await body.stay()
    await assert_unharmed()


async def test_asyncio_timeout_inside_that_ends_with_the_loss(locks: LockClient, faults: Faults, body: Body) -> None:
    """Both in one step of the loop: the loss is not hidden behind the inner TimeoutError."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold, asyncio.timeout(None) as limit:
            limit.reschedule(asyncio.get_running_loop().time())
            faults.lose(hold)
            await body.stay()
    await assert_unharmed()


async def test_an_inner_timeout_that_is_caught_leaves_the_block_alone(locks: LockClient, faults: Faults) -> None:
    """The books are right before and after: a limit inside a healthy block, then the loss."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.sleep(2)
            faults.lose(hold)
            await asyncio.sleep(2)
    await assert_unharmed()


async def test_an_anyio_scope_around_a_lost_block(locks: LockClient, faults: Faults, body: Body) -> None:
    """The loss goes through the scope, which was not cancelled."""
    with pytest.raises(LockLostError):
        with anyio.CancelScope() as scope:
            async with locks.lock("k") as hold:
                faults.lose(hold)
                await body.stay()

    assert not scope.cancelled_caught
    await assert_unharmed()


async def test_an_anyio_scope_around_that_is_cancelled_with_the_loss(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """The scope's cancel is an outer one: it wins, and stops at its scope."""
    with anyio.CancelScope() as scope:
        async with locks.lock("k") as hold:
            faults.lose(hold)
            asyncio.get_running_loop().call_soon(scope.cancel)
            await body.stay()

    assert scope.cancelled_caught
    await assert_unharmed()


async def test_an_anyio_scope_inside_a_lost_block(locks: LockClient, faults: Faults, body: Body) -> None:
    """The scope does not catch our cancel."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold:
            with anyio.move_on_after(60):
                faults.lose(hold)
                await body.stay()
    await assert_unharmed()


async def test_an_anyio_scope_inside_that_is_cancelled_with_the_loss(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """Even if the scope swallows the one CancelledError, the loss leaves the block."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold:
            with anyio.CancelScope() as scope:
                faults.lose(hold)
                asyncio.get_running_loop().call_soon(scope.cancel)
                await body.stay()

    assert body.cancels == 1
    await assert_unharmed()


async def test_an_anyio_task_group_inside_a_lost_block(locks: LockClient, faults: Faults) -> None:
    """The children of the body end with it."""
    children = [Body(), Body()]
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold, anyio.create_task_group() as group:
            for child in children:
                group.start_soon(child.stay)
                await child.inside.wait()
            faults.lose(hold)

    assert [child.cancels for child in children] == [1, 1]
    await assert_unharmed()


# --- requested but not delivered ---------------------------------------------------------------------------


async def test_a_task_that_cancels_itself_in_a_lost_block_ends_cancelled(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """Its own cancel, not delivered yet when the block ends, is not taken back with ours."""

    async def work() -> None:
        async with locks.lock("k") as hold:
            faults.lose(hold)
            with pytest.raises(asyncio.CancelledError):
                await body.stay()
            task.cancel()

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_task_that_cancels_itself_and_fails_in_a_lost_block_keeps_both(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """The body's error leaves the block, and the cancel arrives at the next await."""

    async def work() -> None:
        with pytest.raises(ValueError, match="mine"):
            async with locks.lock("k") as hold:
                faults.lose(hold)
                with pytest.raises(asyncio.CancelledError):
                    await body.stay()
                task.cancel()
                raise ValueError("mine")
        await asyncio.sleep(0)

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_cancel_before_the_loss_is_noticed_is_kept(frozen: LockClient, clock: FakeClock) -> None:
    """We sent no cancel here: the task's own arrives at the next await after LockLostError."""

    async def work() -> None:
        with pytest.raises(LockLostError):
            async with frozen.lock("k"):
                clock.jump(60)
                task.cancel()
        await asyncio.sleep(0)

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    assert task.cancelled()


if sys.version_info >= (3, 12):  # only an eager task can cancel the task that runs it

    async def test_a_cancel_of_ours_that_was_not_delivered_is_absorbed(frozen: LockClient, clock: FakeClock) -> None:
        """The exit takes it before the caller's next await does."""

        async def ask() -> None:
            assert hold.lost  # noticed in this task: the one that runs it is cancelled where it stands

        with pytest.raises(LockLostError):
            async with frozen.lock("k") as hold:
                clock.jump(60)
                eager = asyncio.Task(ask(), eager_start=True, loop=asyncio.get_running_loop())
                assert asyncio.current_task().cancelling() == 1
        await eager
        await assert_unharmed()
