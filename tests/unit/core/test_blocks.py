"""Blocks in blocks: re-entry, child tasks, two locks, holds released inside; and what a loss does to them."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import LockClient, LockLostError, NotHeldError
from aiodlock.testing import Faults
from tests.unit.core.body import Body, assert_unharmed


async def test_re_entries_let_the_cancel_through(locks: LockClient, faults: Faults, body: Body) -> None:
    """One cancel, and the error is made by the outermost block."""
    lock, left = locks.lock("k"), []
    with pytest.raises(LockLostError):
        async with lock as hold:
            try:
                async with lock, lock:
                    faults.lose(hold)
                    await body.stay()
            except BaseException as error:
                left.append(type(error))
                raise

    assert left == [asyncio.CancelledError]
    assert body.cancels == 1
    await assert_unharmed()


async def test_a_re_entry_that_ends_normally_after_the_loss_raises(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """The inner block must not pretend that it was protected."""
    lock = locks.lock("k")
    with pytest.raises(LockLostError):
        async with lock as hold:
            with pytest.raises(LockLostError):
                async with lock:
                    faults.lose(hold)
                    await body.stay_on()

    assert body.cancels == 1
    await assert_unharmed()


async def test_entering_a_lost_lock_again_inside_its_block_raises(locks: LockClient, faults: Faults) -> None:
    """Loss is final: it is not silently taken again while the block still runs."""
    lock = locks.lock("k", on_lost="flag")
    with pytest.raises(LockLostError):
        async with lock as hold:
            faults.lose(hold)
            await hold.wait_lost()
            with pytest.raises(LockLostError):
                await lock.acquire()
            async with lock:
                pytest.fail("not reached")
    async with lock as again:
        assert again.fence > hold.fence


@pytest.mark.parametrize("lost", ["inner", "outer", "both"])
async def test_two_locks_nested(locks: LockClient, faults: Faults, body: Body, lost: str) -> None:
    """The error names the lock that was lost; where both are, the outer one."""
    outer = inner = None
    with pytest.raises(LockLostError) as raised:
        async with locks.lock("outer") as outer:
            try:
                async with locks.lock("inner") as inner:
                    if lost != "outer":
                        faults.lose(inner)
                    if lost != "inner":
                        faults.lose(outer)
                    await body.stay()
            except LockLostError:
                assert not outer.lost
                raise

    assert raised.value.key == ("inner" if lost == "inner" else "outer")
    assert body.cancels == 1
    await assert_unharmed()


async def test_child_tasks_inside_by_reenter_are_cancelled_once_each(locks: LockClient, faults: Faults) -> None:
    """Each task inside is told by its own outermost entry."""

    async def work(body: Body) -> None:
        async with hold.reenter(), lock:
            await body.stay()

    lock, parent, bodies = locks.lock("k"), Body(), [Body(), Body()]
    with pytest.raises(LockLostError):
        async with lock as hold:
            children = [asyncio.create_task(work(body)) for body in bodies]
            for body in bodies:
                await body.inside.wait()
            faults.lose(hold)
            await parent.stay()
    await asyncio.wait(children)

    assert [body.cancels for body in (parent, *bodies)] == [1, 1, 1]
    assert all(isinstance(child.exception(), LockLostError) for child in children)
    await assert_unharmed()


async def test_a_child_that_outlives_its_parents_block_is_cancelled(
    locks: LockClient, faults: Faults, body: Body
) -> None:
    """The last one out gives the place up; until then it is told of a loss."""

    async def work() -> None:
        async with hold.reenter():
            await body.stay()

    async with locks.lock("k") as hold:
        child = asyncio.create_task(work())
        await body.inside.wait()
    assert await locks.lock("k").locked()
    faults.lose(hold)
    await asyncio.wait({child})
    assert isinstance(child.exception(), LockLostError)


async def test_reenter_of_a_lost_hold_raises(locks: LockClient, faults: Faults) -> None:
    """Too late is told before the child begins."""
    hold = await locks.lock("k").acquire()
    faults.lose(hold)
    await hold.wait_lost()
    with pytest.raises(LockLostError):
        async with hold.reenter():
            pytest.fail("not reached")
    with pytest.raises(LockLostError):
        await hold.release()
    with pytest.raises(NotHeldError):
        async with hold.reenter():
            pytest.fail("not reached")


# --- releasing inside the block ---------------------------------------------------------------------------------


async def test_leaving_a_block_released_inside_is_a_no_op(locks: LockClient, other: LockClient) -> None:
    """Others may have the lock while the block still runs; its end changes nothing."""
    async with locks.lock("k") as hold:
        await hold.release()
        taken = await other.lock("k").acquire()
        with pytest.raises(NotHeldError):
            await hold.release()
        with pytest.raises(NotHeldError):
            hold.check()
    assert await other.lock("k").holder() == "web-2"
    await taken.release()


async def test_a_block_released_inside_and_acquired_again(locks: LockClient) -> None:
    """The exits find their own blocks: the inner one releases, the outer one is a no-op."""
    lock = locks.lock("k")
    async with lock as first:
        await first.release()
        async with lock as second:
            assert second.fence > first.fence
        assert not await lock.locked()
        third = await lock.acquire()
    third.check()
    assert await lock.locked()
    await third.release()


async def test_an_outer_handle_released_in_the_inner_block(locks: LockClient) -> None:
    """Two entries need two releases, in any order."""
    lock = locks.lock("k")
    async with lock as outer:
        async with lock:
            await outer.release()
            assert await lock.locked()
        assert not await lock.locked()
    assert not await lock.locked()


async def test_releasing_a_lost_hold_in_its_block_raises_there(locks: LockClient, faults: Faults, body: Body) -> None:
    """The release tells of the loss; the block has nothing to add but takes its cancel back."""
    with pytest.raises(LockLostError):
        async with locks.lock("k") as hold:
            faults.lose(hold)
            with pytest.raises(asyncio.CancelledError):
                await body.stay()
            await hold.release()
    await assert_unharmed()


async def test_a_hold_can_be_released_inside_its_own_block(locks: LockClient) -> None:
    """Also one from acquire(): leaving the block is then a no-op."""
    lock = locks.lock("k")
    async with await lock.acquire() as hold:
        await hold.release()
        assert not await lock.locked()
        with pytest.raises(NotHeldError):
            await hold.release()
    async with lock:
        pass
