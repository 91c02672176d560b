"""Owned background work: seen through, reported, ended in order."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock._core.supervise import Supervisor
from aiodlock.backends.base import Reply
from aiodlock.errors import BackendError, BackendUnavailableError


class Outcomes:
    def __init__(self) -> None:
        self.reported: list[BaseException] = []
        self.done: list[object] = []
        self.work = Supervisor(self.reported.append)

    def own(self, work: object) -> asyncio.Future[object]:
        return self.work.own(work, self.done.append)


@pytest.fixture
async def outcomes() -> Outcomes:
    return Outcomes()


async def answer(value: object, *, after: float = 1.0) -> object:
    await asyncio.sleep(after)
    if isinstance(value, BaseException):
        raise value
    return value


async def test_a_result_reaches_its_callback(outcomes: Outcomes) -> None:
    """A coroutine is run as a task of ours, a future is taken as it is."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    outcomes.own(answer("coroutine"))
    assert outcomes.own(future) is future
    future.set_result("future")
    await asyncio.sleep(2)
    assert outcomes.done == ["future", "coroutine"]
    assert outcomes.reported == []


async def test_a_backends_error_is_reported_and_handed_on(outcomes: Outcomes) -> None:
    """As it is."""
    error = BackendUnavailableError("no answer")
    outcomes.own(answer(error))
    await asyncio.sleep(2)
    assert outcomes.done == outcomes.reported == [error]


async def test_another_error_is_reported_and_stands_as_one_of_ours(outcomes: Outcomes) -> None:
    """Whatever a driver raises, the engine hears a BackendError."""
    error = ZeroDivisionError("bug")
    outcomes.own(answer(error))
    await asyncio.sleep(2)
    assert outcomes.reported == [error]
    assert isinstance(outcomes.done[0], BackendError)
    assert str(outcomes.done[0]) == "ZeroDivisionError: bug"


async def test_the_work_outlives_whoever_asked_for_it(outcomes: Outcomes) -> None:
    """Cancelling the asker does not tear it."""

    async def ask() -> None:
        await asyncio.shield(outcomes.own(answer("seen through")))

    task = asyncio.create_task(ask())
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.sleep(1)
    assert outcomes.done == ["seen through"]


async def test_drain_waits_for_what_follows_from_it(outcomes: Outcomes) -> None:
    """The end of one may begin another: drained is when none is left."""

    def again(value: object) -> None:
        outcomes.done.append(value)
        if len(outcomes.done) < 3:
            outcomes.work.own(answer(len(outcomes.done)), again)

    outcomes.work.own(answer(0), again)
    await outcomes.work.drain(within=100)
    assert outcomes.done == [0, 1, 2]


async def test_drain_is_bounded(outcomes: Outcomes) -> None:
    """Work that does not end is left for `stop`."""
    outcomes.own(answer("late", after=1_000))
    began = asyncio.get_running_loop().time()
    await outcomes.work.drain(within=5)
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)
    assert outcomes.done == []
    await outcomes.work.stop()


async def test_stop_ends_everything(outcomes: Outcomes) -> None:
    """Callbacks hear that there was no answer; nothing is reported, no task is left."""
    for _ in range(3):
        outcomes.own(answer("never", after=1_000))
    await outcomes.work.stop()
    assert [type(outcome) for outcome in outcomes.done] == [BackendUnavailableError] * 3
    assert outcomes.reported == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_stop_also_ends_work_that_ignores_a_first_cancel(outcomes: Outcomes) -> None:
    """It goes on asking until the work is gone."""

    async def stubborn() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                pass

    outcomes.own(stubborn())
    await asyncio.sleep(0)
    await outcomes.work.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- replies -----------------------------------------------------------------------------------------------


async def test_a_reply_is_heard_in_the_step_it_arrives_in(outcomes: Outcomes) -> None:
    """Result and error alike; a loop's step later would be too late to save one."""
    good, bad = Reply[object](), Reply[object]()
    for reply in (good, bad):
        outcomes.work.see(reply, outcomes.done.append)
    error = BackendUnavailableError("gone")
    good.arrive("answer")
    bad.fail(error)
    assert outcomes.done == ["answer", error]
    assert outcomes.reported == [error]


async def test_a_reply_that_failed_before_anybody_listened_is_heard(outcomes: Outcomes) -> None:
    """As one is that never left, because there is no connection."""
    reply = Reply[object]()
    error = BackendUnavailableError("not connected")
    reply.fail(error)
    outcomes.work.see(reply, outcomes.done.append)
    assert outcomes.done == []
    await outcomes.work.drain(within=1)
    assert outcomes.done == outcomes.reported == [error]


async def test_a_reply_that_fails_unseen_raises_when_it_is_awaited_and_is_quiet_otherwise() -> None:
    """Work that was given up before it began to wait: asyncio has nothing to report of it."""
    forgotten, awaited = Reply[str](), Reply[str]()
    for reply in (forgotten, awaited):
        reply.fail(BackendUnavailableError("gone"))
    with pytest.raises(BackendUnavailableError, match="gone"):
        await awaited


async def test_a_reply_nobody_listens_to_is_awaited_or_cancelled_as_a_future() -> None:
    """What comes late is dropped."""
    reply, cancelled = Reply[str](), Reply[str]()
    cancelled.future.cancel()
    cancelled.arrive("late")
    reply.arrive("answer")
    assert await reply == "answer"
    assert cancelled.future.cancelled()
