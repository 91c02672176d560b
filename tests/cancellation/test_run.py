"""run(fn): what becomes of functions whose caller, client or hold is gone before their turn."""

from __future__ import annotations

import asyncio

import pytest

import aiodlock
from aiodlock.testing import FakeClock


async def test_a_cancelled_error_of_the_function_is_its_callers() -> None:
    """A function may take the result of a cancelled future; its caller hears so, and is not cancelled itself."""
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    async with aiodlock.connect("memory://") as locks:
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await locks.lock("k").run(cancelled.result)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_function_whose_caller_was_turned_away_is_not_run() -> None:
    ran: list[str] = []
    async with aiodlock.connect("memory://", max_waiters=1) as locks:
        lock = locks.lock("k")
        async with lock:
            waiter = asyncio.ensure_future(lock.acquire())
            turned_away = asyncio.ensure_future(locks.lock("k").run(lambda: ran.append("turned away")))
            with pytest.raises(aiodlock.TooManyWaitersError):
                await turned_away
        await (await waiter).release()
        await lock.run(lambda: ran.append("later"))
    assert ran == ["later"]


async def test_functions_left_over_from_a_batch_are_told_that_the_client_closed() -> None:
    """The second one's turn has come when the client closes: its hold is lost, and it is not run."""
    clock, ran, closing = FakeClock(), [], []
    locks = await aiodlock.connect("memory://", clock=clock).start()

    def first() -> None:
        clock.jump(0.5)  # a batch is over
        closing.append(asyncio.ensure_future(locks._at_work().close()))  # as aclose() does, a step earlier

    lock = locks.lock("k")
    runs = [asyncio.ensure_future(lock.run(first)), asyncio.ensure_future(lock.run(lambda: ran.append("second")))]
    with pytest.raises(aiodlock.ClientClosedError):
        await asyncio.gather(*runs)
    await closing[0]
    assert not ran
