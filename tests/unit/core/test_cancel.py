"""finish(): waits for owned work whatever cancels its caller, then lets the cancellation through once."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from aiodlock._core.cancel import finish


@pytest.fixture
async def work() -> asyncio.Future[str]:
    """Work that ends after ten seconds."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(10, future.set_result, "done")
    return future


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_it_returns_when_the_work_is_done(work: asyncio.Future[str]) -> None:
    """And says so."""
    began = now()
    assert await finish(work, within=60)
    assert now() - began == pytest.approx(10)


async def test_it_is_bounded(work: asyncio.Future[str]) -> None:
    """After that the work goes on without it."""
    began = now()
    assert not await finish(work, within=3)
    assert now() - began == pytest.approx(3)
    assert not work.cancelled()


async def test_done_work_is_not_waited_for() -> None:
    """Not even for one step, also when it failed: that is its owner's business."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(ValueError("not ours"))
    step = asyncio.get_running_loop().call_soon(pytest.fail, "a step passed")
    assert await finish(failed, within=60)
    step.cancel()
    assert isinstance(failed.exception(), ValueError)


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_native_cancels_come_through_once_at_the_end(work: asyncio.Future[str], times: int) -> None:
    """However often the caller is cancelled meanwhile, the work is seen through."""
    seen: list[float] = []

    async def caller() -> None:
        try:
            await finish(work, within=60)
        except asyncio.CancelledError:
            seen.append(now())
            raise

    began = now()
    task = asyncio.create_task(caller())
    for _ in range(times):
        await asyncio.sleep(1)
        task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert seen == [pytest.approx(began + 10)]
    assert work.result() == "done"


async def test_an_anyio_scope_comes_through_once_at_the_end(work: asyncio.Future[str]) -> None:
    """A cancelled scope cancels again at every await: the wait goes on all the same, without spinning."""
    steps = 0

    def count() -> None:
        nonlocal steps, handle
        steps += 1
        handle = asyncio.get_running_loop().call_later(0.1, count)

    handle = asyncio.get_running_loop().call_soon(count)
    began = now()
    with anyio.move_on_after(1) as scope:
        await finish(work, within=60)
    handle.cancel()
    assert scope.cancelled_caught
    assert now() - began == pytest.approx(10)
    assert steps <= 110


async def test_both_kinds_at_once(work: asyncio.Future[str]) -> None:
    """A scope and a native cancel: the native one is not swallowed by the scope."""

    async def caller() -> None:
        with anyio.move_on_after(1):
            await finish(work, within=60)

    task = asyncio.create_task(caller())
    await asyncio.sleep(2)
    task.cancel()
    await asyncio.wait({task})
    assert work.done()
    assert task.cancelled()


async def test_the_bound_holds_for_a_cancelled_caller_too(work: asyncio.Future[str]) -> None:
    """Nobody waits longer because he was cancelled."""
    began = now()
    with anyio.move_on_after(1) as scope:
        await finish(work, within=3)
    assert scope.cancelled_caught
    assert now() - began == pytest.approx(3)
