"""Waking ahead: short sections share a step of the loop, and nobody who is too early gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

import aiodlock
from aiodlock import AcquireTimeoutError, ClientClosedError, Hold, Lock, LockClient
from aiodlock._core.ahead import Ahead
from aiodlock.testing import FakeClock, Faults, LoopClock, settle

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
    monkeypatch.setattr(Ahead, "wake", lambda *_: None)
    assert await steps_of_short_sections() >= TASKS


@pytest.mark.parametrize("every", [1, 2, 3, 7])
async def test_sections_that_last_keep_the_order(locks: LockClient, every: int) -> None:
    """Whoever is too early waits in its old place of the queue."""
    lock, order = locks.lock("k"), []
    async with lock:
        tasks = await queued(lock, order, stay=lambda number: number % every == 0)
    await asyncio.gather(*tasks)
    assert order == list(range(TASKS))


async def test_nobody_is_woken_ahead_for_a_while_after_one_was_too_early(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = []
    too_early = Ahead.too_early
    monkeypatch.setattr(Ahead, "too_early", lambda self, own: early.append(own) or too_early(self, own))
    lock, order = locks.lock("k"), []
    async with lock:
        tasks = await queued(lock, order, stay=lambda _: True)
    await asyncio.gather(*tasks)
    assert len(early) == 1


async def test_long_sections_do_not_keep_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections that take long without an await are not put into one step: two at most."""
    clock, woken = FakeClock(), []
    wake = Ahead.wake

    def watch(self: Ahead, *args: object) -> None:
        wake(self, *args)  # type: ignore[arg-type]
        woken.append(len(self.coming))

    async def work(lock: Lock) -> None:
        async with lock:
            clock.jump(0.005)

    monkeypatch.setattr(Ahead, "wake", watch)
    async with aiodlock.connect("memory://", clock=clock) as locks:
        lock = locks.lock("k")
        async with lock:
            tasks = [asyncio.create_task(work(lock)) for _ in range(TASKS)]
            await settle()
        await asyncio.gather(*tasks)
    assert max(woken) == 1


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


async def test_the_twin_that_does_not_strike_them_off_is_caught(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn is given to nobody, and the others wait for ever."""
    monkeypatch.setattr(Ahead, "strike", lambda self, own: True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):  # of virtual time
            await test_one_who_is_cancelled_leaves_the_others_their_turns(locks, 1, 0, True)


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


# --- who would not wait again is not woken ahead -----------------------------------------------------------------


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
