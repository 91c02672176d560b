"""Waking: short sections share a step of the loop, and nobody who was woken gets lost."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

import aiodlock
from aiodlock import AcquireTimeoutError, ClientClosedError, Hold, Lock, LockClient
from aiodlock._core import wake
from aiodlock._core.cohort import Cohort
from aiodlock._core.wake import Wakes
from aiodlock.testing import Faults, LoopClock, settle

TASKS = 40


@contextmanager
def steps() -> Iterator[list[int]]:
    """Count the steps of the loop in the first item."""
    loop, count, going = asyncio.get_running_loop(), [0], True

    def tick() -> None:
        count[0] += 1
        if going:
            loop.call_soon(tick)

    loop.call_soon(tick)
    yield count
    going = False


async def visit(lock: Lock, order: list[int], number: int, *, stay: bool = False) -> None:
    async with lock as hold:
        order.append(number)
        if stay:
            await asyncio.sleep(0)
        hold.check()


async def queued(
    lock: Lock, order: list[int], *, stay: Callable[[int], bool] = lambda _: False
) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(visit(lock, order, number, stay=stay(number))) for number in range(TASKS)]
    await settle()
    return tasks


@pytest.fixture(params=["quiet", "told of"])
async def locks(request: pytest.FixtureRequest) -> AsyncIterator[LockClient]:
    """A client whose hand-offs nobody hears of, and one that tells of each: they take different ways."""
    on_event = None if request.param == "quiet" else lambda _: None
    async with aiodlock.connect("memory://", clock=LoopClock(), on_event=on_event) as client:
        yield client


async def steps_of_short_sections() -> int:
    async with aiodlock.connect("memory://", clock=LoopClock()) as locks:
        order: list[int] = []
        async with locks.lock("k") as hold:
            tasks = await queued(locks.lock("k"), order)
            with steps() as count:
                await hold.release()
                await asyncio.gather(*tasks)
        assert order == list(range(TASKS))
        return count[0]


async def test_short_sections_share_a_step_of_the_loop() -> None:
    assert await steps_of_short_sections() < TASKS / 2


async def test_without_it_each_takes_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wakes, "give", lambda self, waiter, result: waiter.set_result(result))
    assert await steps_of_short_sections() >= TASKS


@pytest.mark.parametrize("every", [1, 2, 3, 7])
async def test_sections_that_last_keep_the_order(locks: LockClient, every: int) -> None:
    lock, order = locks.lock("k"), []
    async with lock:
        tasks = await queued(lock, order, stay=lambda number: number % every == 0)
    await asyncio.gather(*tasks)
    assert order == list(range(TASKS))


async def test_sections_that_take_long_do_not_keep_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a millisecond of them the others are let in."""
    instants = itertools.count(step=0.005)
    monkeypatch.setattr(wake, "monotonic", lambda: next(instants))
    assert await steps_of_short_sections() >= TASKS


# --- cancelled ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stay", [False, True], ids=["short", "lasting"])
@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("victim", range(5))
async def test_one_who_is_cancelled_leaves_the_others_their_turns(
    locks: LockClient, victim: int, step: int, stay: bool
) -> None:
    """Before it runs, while it waits again, in the step in which its turn comes, inside."""
    lock, order = locks.lock("k"), []
    async with lock:
        tasks = await queued(lock, order, stay=lambda _: stay)
    for _ in range(step):
        await asyncio.sleep(0)
    tasks[victim].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    others = [number for number in range(TASKS) if number != victim]
    assert [number for number in order if number != victim] == others
    assert [error for number, error in enumerate(done) if number != victim and error] == []
    assert locks._at_work().waiting == 0
    assert not await lock.locked()


async def test_the_twin_that_forgets_what_they_got_is_caught(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn is given to nobody, and the others wait for ever."""
    monkeypatch.setattr(Cohort, "give_up", lambda self, waiter: None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):  # of virtual time
            await test_one_who_is_cancelled_leaves_the_others_their_turns(locks, 0, 0, True)


# --- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(4))
async def test_those_who_come_are_told_that_the_client_was_closed(step: int) -> None:
    order: list[int] = []
    async with aiodlock.connect("memory://") as locks:
        lock = locks.lock("k")
        async with lock:
            tasks = await queued(lock, order, stay=lambda _: True)
        for _ in range(step):
            await asyncio.sleep(0)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    told = [error for number, error in enumerate(done) if number not in order]
    assert told
    assert all(isinstance(error, ClientClosedError) for error in told)


async def test_those_who_come_get_the_next_place_when_this_one_is_lost(locks: LockClient, faults: Faults) -> None:
    """In their order, and with larger fences."""
    holds: list[Hold] = []

    async def enter(stay: float) -> None:
        async with lock as hold:
            holds.append(hold)
            await asyncio.sleep(stay)

    lock = locks.lock("k")
    async with lock:
        first, *others = [asyncio.create_task(enter(1.0 if number == 0 else 0.0)) for number in range(5)]
        await settle()
    await settle()
    faults.lose(holds[0])
    with pytest.raises(aiodlock.LockLostError):
        await first
    await asyncio.gather(*others)
    fences = [hold.fence for hold in holds]
    assert len(fences) == 5
    assert fences == sorted(set(fences))


# --- limits and functions ----------------------------------------------------------------------------------------


async def test_a_limit_counts_from_the_asking(locks: LockClient) -> None:
    lock = locks.lock("k")
    loop = asyncio.get_running_loop()

    async def try_for_a_second() -> float:
        began = loop.time()
        with pytest.raises(AcquireTimeoutError):
            await lock.acquire(wait=1.0)
        return loop.time() - began

    async def stay() -> None:
        async with lock:
            await asyncio.sleep(5)

    async with lock:
        tasks = [asyncio.create_task(stay()), *(asyncio.create_task(try_for_a_second()) for _ in range(3))]
        await asyncio.sleep(0.5)
    assert await asyncio.gather(*tasks[1:]) == [pytest.approx(1.0)] * 3
    await tasks[0]


async def test_functions_wait_for_their_turn(locks: LockClient) -> None:
    lock, order = locks.lock("k"), []
    async with lock:
        tasks = [
            asyncio.create_task(visit(lock, order, number, stay=True))
            if number % 2
            else asyncio.create_task(lock.run(lambda number=number: order.append(number)))
            for number in range(8)
        ]
        await settle()
    await asyncio.gather(*tasks)
    assert sorted(order) == list(range(8))
    assert [number for number in order if number % 2] == [1, 3, 5, 7]


# --- one piece of news -------------------------------------------------------------------------------------------


class Room:
    """Tasks that wait, each for a future of its own, and what they did."""

    def __init__(self, tasks: int = 3) -> None:
        loop = asyncio.get_running_loop()
        self.wakes = Wakes(loop)
        self.heard: list[int] = []
        self.waiters: list[asyncio.Future[int]] = [loop.create_future() for _ in range(tasks)]
        self.tasks = [asyncio.create_task(self._wait(waiter)) for waiter in self.waiters]

    async def _wait(self, waiter: asyncio.Future[int]) -> None:
        self.heard.append(await waiter)

    def tell(self) -> None:
        with self.wakes:
            for number, waiter in enumerate(self.waiters):
                self.wakes.give(waiter, number)
            assert self.heard == []


async def as_a_step(act: Callable[[], None]) -> None:
    """Run *act* as the loop runs a callback, not in a task."""
    done = asyncio.get_running_loop().create_future()

    def step() -> None:
        try:
            act()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    asyncio.get_running_loop().call_soon(step)
    await done


async def test_whoever_it_is_for_runs_at_the_end_of_the_news() -> None:
    """In the same step of the loop, in the order in which it was given."""
    room = Room()
    await settle()

    def hear() -> None:
        room.tell()
        assert room.heard == [0, 1, 2]

    await as_a_step(hear)


async def test_whoever_was_woken_together_runs_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: otherwise the last of them would fall behind, again and again."""
    instants = itertools.count(step=0.005)
    monkeypatch.setattr(wake, "monotonic", lambda: next(instants))
    await test_whoever_it_is_for_runs_at_the_end_of_the_news()


async def test_news_that_a_task_hears_wake_in_a_later_step() -> None:
    """No task can run inside another."""
    room = Room()
    await settle()
    room.tell()
    assert room.heard == []
    await asyncio.gather(*room.tasks)
    assert room.heard == [0, 1, 2]


async def test_one_that_is_cancelled_after_it_was_given_something_is_cancelled() -> None:
    room = Room()
    await settle()
    for number, waiter in enumerate(room.waiters):
        room.wakes.give(waiter, number)
    room.tasks[1].cancel()
    done = await asyncio.gather(*room.tasks, return_exceptions=True)
    assert room.heard == [0, 2]
    assert isinstance(done[1], asyncio.CancelledError)


async def test_a_task_runs_in_its_own_context() -> None:
    name: contextvars.ContextVar[int] = contextvars.ContextVar("name", default=-1)
    waiters: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(3)]
    wakes, seen = Wakes(asyncio.get_running_loop()), []

    async def wait(number: int) -> None:
        name.set(number)
        await waiters[number]
        seen.append(name.get())

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await settle()
    for waiter in waiters:
        wakes.give(waiter, None)
    await asyncio.gather(*tasks)
    assert seen == [0, 1, 2]


async def test_whatever_a_callback_raises_is_reported_and_the_others_run() -> None:
    room, reported = Room(), list[object]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    crooked: asyncio.Future[int] = loop.create_future()
    crooked.add_done_callback(lambda _: 1 // 0)
    await settle()
    room.wakes.give(crooked, 7)
    for number, waiter in enumerate(room.waiters):
        room.wakes.give(waiter, number)
    await asyncio.gather(*room.tasks)
    assert [type(error) for error in reported] == [ZeroDivisionError]


def who_is_woken_beside_one_that_exits() -> list[int]:
    heard, loop = list[int](), asyncio.new_event_loop()
    wakes, waiters = Wakes(loop), [loop.create_future() for _ in range(3)]

    def hear(waiter: asyncio.Future[int]) -> None:
        heard.append(waiter.result())
        if heard == [0]:
            raise SystemExit

    for number, waiter in enumerate(waiters):
        waiter.add_done_callback(hear)
        wakes.give(waiter, number)
    try:
        with pytest.raises(SystemExit):
            loop.run_forever()
        loop.call_soon(loop.stop)
        loop.run_forever()
    finally:
        loop.close()
    return heard


def test_a_task_that_ends_the_program_does_not_keep_the_others_from_running() -> None:
    """They run when the loop goes on, as it does to clean up."""
    assert who_is_woken_beside_one_that_exits() == [0, 1, 2]


def test_the_twin_that_forgets_the_others_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Wakes) -> None:
        while self._woken:
            context, step, waiter = self._woken.popleft()
            context.run(step, waiter)
        self._is_planned = False

    monkeypatch.setattr(Wakes, "_run", run)
    assert who_is_woken_beside_one_that_exits() == [0]


async def test_a_future_that_several_wait_for_is_left_to_the_loop() -> None:
    loop = asyncio.get_running_loop()
    wakes, heard = Wakes(loop), list[int]()
    waiter: asyncio.Future[int] = loop.create_future()
    for number in range(3):
        waiter.add_done_callback(lambda done, number=number: heard.append(number + done.result()))
    wakes.give(waiter, 10)
    await settle()
    assert heard == [10, 11, 12]
