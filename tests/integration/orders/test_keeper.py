"""Work that is kept going in the background: it goes on whatever a step does, and ends when it is told to."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from aiodlock.errors import ClientClosedError
from aiodlock.events import Event, TaskFailed
from aiodlock.inventory.orders.keeper import _FIRST_PAUSE, Keeper


class Kept(Keeper):
    """Does what it is given, step by step, then nothing more."""

    def __init__(self, *steps: Callable[[], Awaitable[bool]], end: Exception | None = None) -> None:
        self.events: list[Event] = []
        super().__init__("test", idle=0.0, ended_within=5.0, on_event=self.events.append)
        self.pauses: list[float] = []  # at the begin of each step
        self.all_done = asyncio.Event()
        self.has_ended = False
        self._steps = iter(steps)
        self._error = end

    async def _step(self) -> bool:
        self.pauses.append(self._pause)
        if step := next(self._steps, None):
            return await step()
        self.all_done.set()
        return await asyncio.Event().wait()

    async def _end(self) -> None:
        self.has_ended = True
        if self._error is not None:
            raise self._error


async def fail() -> bool:
    raise OSError("away")


async def let_a_cancel_through() -> bool:
    raise asyncio.CancelledError  # a driver's own task was cancelled, not ours


async def swallow_the_cancel() -> bool:
    try:
        return await asyncio.Event().wait()
    except asyncio.CancelledError:
        return True


@pytest.mark.parametrize("step", [fail, let_a_cancel_through])
async def test_it_goes_on_after_a_step_that_failed(step: Callable[[], Awaitable[bool]]) -> None:
    """And says so; a cancel that was not meant for it is a failure like others."""
    async with Kept(step, step) as kept:
        await kept.all_done.wait()
    assert kept.failures == 2
    assert [type(event) for event in kept.events] == [TaskFailed, TaskFailed]
    assert kept.has_ended


async def test_the_pause_grows_and_begins_anew_after_work() -> None:
    """Also for a step that does its work without an end, and tells of it."""

    async def work_then_fail() -> bool:
        kept._got_on()
        return await fail()

    kept = Kept(fail, fail, work_then_fail)
    async with kept:
        await kept.all_done.wait()
    assert kept.pauses == [_FIRST_PAUSE * times for times in (1, 2, 4, 2)]


async def test_it_ends_although_a_step_swallows_the_cancel() -> None:
    """No further step is begun."""
    async with Kept(swallow_the_cancel) as kept:
        await asyncio.sleep(0)
    assert kept.has_ended
    assert len(kept.pauses) == 1


async def test_an_error_at_the_end_is_told_and_not_raised() -> None:
    """It would hide what the block ended with."""
    async with Kept(end=OSError("gone")) as kept:
        pass
    assert [event.error for event in kept.events if isinstance(event, TaskFailed)] == [repr(OSError("gone"))]


async def fail_when_cancelled() -> bool:
    try:
        return await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise OSError("torn") from None


async def test_an_error_of_the_last_step_is_told() -> None:
    """Not left for the loop to complain of when the task is collected."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with Kept(fail_when_cancelled) as kept:
        await asyncio.sleep(0)
    assert [event.error for event in kept.events if isinstance(event, TaskFailed)] == [repr(OSError("torn"))]
    kept._task = None
    gc.collect()
    assert complaints == []


async def test_it_is_started_once() -> None:
    async with Kept() as kept:
        with pytest.raises(ClientClosedError, match="make another"):
            await kept.__aenter__()
