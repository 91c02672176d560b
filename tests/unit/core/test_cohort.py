"""The cohort: what a process asks of its server, and how the place passes between its tasks."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import Future
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

import aiodlock
from aiodlock import (
    AcquireTimeoutError,
    BackendDataError,
    BackendUnavailableError,
    LockClient,
    LockError,
    LockLostError,
    Poll,
    Retry,
    TooManyWaitersError,
)
from aiodlock._core import place as place_module
from aiodlock._core.combine import Combiner
from aiodlock._core.fence import split
from aiodlock._core.hold import Hold
from aiodlock._core.place import Place
from aiodlock.testing import FakeClock, Faults, LoopClock, settle
from tests.acceptance import acceptance


async def rows(client: LockClient) -> list[tuple[str, bool]]:
    return [(row.owner, row.inside) async for row in client.inspect()]


async def enter(lock: aiodlock.Lock, order: list[object], who: object, *, stay: float = 0.0) -> None:
    async with lock:
        order.append(who)
        await asyncio.sleep(stay)


# --- one ticket for a process ------------------------------------------------------------------------------


@acceptance(29)
async def test_a_thousand_tasks_cost_the_server_one_join_and_one_leave(locks: LockClient, faults: Faults) -> None:
    """Alone with a key the place passes from task to task with no round trip, in order."""
    lock, order = locks.lock("k"), []
    await asyncio.gather(*(enter(lock, order, n) for n in range(1_000)))
    assert order == list(range(1_000))
    assert Counter(faults.sent) == {"join": 1, "leave": 1}


async def test_waiting_tasks_show_as_one_ticket(locks: LockClient, other: LockClient) -> None:
    """A thousand waiters in one process are one in the line."""
    async with other.lock("k"):
        tasks = [asyncio.create_task(enter(locks.lock("k"), [], n)) for n in range(1_000)]
        await settle()
        assert await rows(other) == [("web-2", True), ("web-1", False)]
    await asyncio.gather(*tasks)


async def test_fences_grow_with_every_hand_off(locks: LockClient) -> None:
    """Also between tasks that share one ticket."""

    async def take() -> None:
        async with lock as hold:
            fences.append(hold.fence)

    lock, fences = locks.lock("k"), []
    await asyncio.gather(*(take() for _ in range(100)))
    assert fences == sorted(set(fences))
    assert {split(fence)[0] for fence in fences} == {split(fences[0])[0]}


async def test_when_the_count_is_used_up_the_batch_is_over(
    locks: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fence counts so many local ownerships; the next one takes a new epoch, and still grows."""
    monkeypatch.setattr("aiodlock._core.place.LAST_COUNT", 63)

    async def take() -> None:
        async with lock as hold:
            fences.append(hold.fence)

    lock, fences = locks.lock("k"), []
    await asyncio.gather(*(take() for _ in range(100)))
    assert len(fences) == 100
    assert fences == sorted(set(fences))
    assert len({split(fence)[0] for fence in fences}) == 2
    assert faults.sent.count("join") == 2


async def test_with_fair_or_a_fixed_lease_everybody_has_a_ticket(locks: LockClient, other: LockClient) -> None:
    """Strict order across processes needs a place in the line for each."""
    for policy in ({"fair": True}, {"renew": False}):
        async with other.lock("k"):
            tasks = [asyncio.create_task(enter(locks.lock("k", **policy), [], n)) for n in range(3)]
            await settle()
            assert await rows(other) == [("web-2", True), *[("web-1", False)] * 3]
        await asyncio.gather(*tasks)


# --- company -----------------------------------------------------------------------------------------------


async def test_in_company_the_place_is_given_up_after_a_batch(locks: LockClient, other: LockClient) -> None:
    """Two busy processes take turns: neither waits for all of the other's tasks."""
    order: list[str] = []
    await asyncio.gather(
        *(enter(locks.lock("k"), order, "a", stay=0.001) for _ in range(200)),
        *(enter(other.lock("k"), order, "b", stay=0.001) for _ in range(200)),
    )
    turns = sum(before != after for before, after in itertools.pairwise(order))
    assert Counter(order) == {"a": 200, "b": 200}
    assert turns >= 10
    assert {"a", "b"} == set(order[:100])


async def share_of_time(locks: LockClient, other: LockClient) -> float:
    """Let two processes want the same line all the time; return how much longer the first was inside in all.

    Its sections do not fit into a batch a whole number of times, those of the other do.
    """
    stays, order = {"a": 0.0007, "b": 0.001}, list[str]()
    await asyncio.gather(
        *(enter(locks.lock("k"), order, "a", stay=stays["a"]) for _ in range(600)),
        *(enter(other.lock("k"), order, "b", stay=stays["b"]) for _ in range(600)),
    )
    both = Counter(order[: min(len(order) - order[::-1].index(who) for who in stays)])  # until one had enough
    return both["a"] * stays["a"] / (both["b"] * stays["b"])


async def test_a_batch_that_took_too_long_makes_the_next_one_shorter(locks: LockClient, other: LockClient) -> None:
    """A section may end after its batch; in the long run nobody has more of the line for that."""
    assert await share_of_time(locks, other) == pytest.approx(1, abs=0.1)


async def test_who_does_not_count_what_was_too_long_has_more_of_the_line(
    locks: LockClient, other: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(Place, "overrun", 0.0)
    assert await share_of_time(locks, other) > 1.3


async def turns_of_long_sections(locks: LockClient, other: LockClient, faults: Faults) -> int:
    """Let two processes have sections of several batches; return how often the first stood in line for its twenty."""
    await asyncio.gather(
        *(enter(locks.lock("k"), [], "a", stay=0.01) for _ in range(20)),
        *(enter(other.lock("k"), [], "b", stay=0.01) for _ in range(20)),
    )
    return faults.sent.count("join")


async def test_however_long_a_section_was_the_next_turn_is_used(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """Whoever gets inside serves somebody: a turn that is given back unused would keep everybody waiting."""
    assert await turns_of_long_sections(locks, other, faults) == 20


async def test_who_gives_back_turns_unused_is_found(
    locks: LockClient, other: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: a whole batch is taken off."""
    monkeypatch.setattr(place_module, "MOST_OVERRUN", 1.0)
    assert await turns_of_long_sections(locks, other, faults) > 30


async def test_a_batch_ends_with_leave_and_stand_in_one_request(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """The old ticket leaves and the new one stands by one join."""
    lock = locks.lock("k")
    async with lock:
        waiting = asyncio.create_task(enter(other.lock("k"), [], "b", stay=1.0))
        tasks = [asyncio.create_task(enter(lock, [], "a", stay=0.1)) for _ in range(2)]
        await settle()
        await asyncio.sleep(0.1)
        faults.sent.clear()
    await settle()
    assert faults.sent == ["join"]
    assert await rows(other) == [("web-2", True), ("web-1", False)]
    await asyncio.gather(waiting, *tasks)


# --- re-entry ----------------------------------------------------------------------------------------------


async def test_re_entry_is_local_and_counted(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """N acquires need N releases, with one join and the same fence."""
    lock = locks.lock("k")
    holds = [await lock.acquire() for _ in range(5)]
    assert len({hold.fence for hold in holds}) == 1
    for hold in holds:
        assert await other.lock("k").locked()
        await hold.release()
    assert not await other.lock("k").locked()
    assert Counter(faults.sent) == {"join": 1, "leave": 1}


async def test_re_entry_works_through_other_lock_objects(locks: LockClient) -> None:
    """The owner is the task; what it holds is the key, whatever the policy of the object."""
    async with locks.lock("k", ttl=30) as outer, locks.lock("k", ttl=5, fair=True) as inner:
        assert inner.fence == outer.fence


async def test_another_task_does_not_re_enter(locks: LockClient) -> None:
    """A child task is another owner: it waits, unless it comes by `reenter`."""
    async with locks.lock("k") as hold:
        child = asyncio.create_task(locks.lock("k").try_acquire())
        assert await child is None

        async def inside() -> bool:
            async with hold.reenter() as again, locks.lock("k"):
                return again.fence == hold.fence

        assert await asyncio.create_task(inside())
    assert not await locks.lock("k").locked()


async def test_a_non_re_entrant_lock_raises_instead_of_deadlocking(locks: LockClient, faults: Faults) -> None:
    """At once, in every way to acquire, and before any request."""
    lock = locks.lock("k", reentrant=False)
    async with lock:
        faults.sent.clear()
        for again in (lock.acquire, lock.try_acquire, lock.__aenter__, lambda: lock.run(int)):
            with pytest.raises(LockError, match="holds 'k' already and it is not re-entrant"):
                await again()
        assert faults.sent == []
        assert await asyncio.create_task(lock.try_acquire()) is None
    async with lock:
        pass


# --- waiting -----------------------------------------------------------------------------------------------


async def test_a_timed_out_task_leaves_nothing(locks: LockClient, other: LockClient) -> None:
    """The error says key, time and holder; the ticket is gone at once."""
    async with other.lock("k"):
        began = asyncio.get_running_loop().time()
        with pytest.raises(AcquireTimeoutError, match=r"'k' not acquired within 3.00s, held by web-2") as raised:
            await locks.lock("k").acquire(3)
        assert asyncio.get_running_loop().time() - began == pytest.approx(3)
        assert (raised.value.waited, raised.value.holder) == (3, "web-2")
        assert isinstance(raised.value, TimeoutError)
        await settle()
        assert await rows(other) == [("web-2", True)]


async def test_wait_of_the_call_wins_over_the_locks_own(locks: LockClient, other: LockClient) -> None:
    """Left out: the lock's own. None: for ever."""
    lock = locks.lock("k", wait=1)
    hold = await other.lock("k").acquire()
    for call in (lock.acquire, lock.__aenter__, lambda: lock.run(int)):
        began = asyncio.get_running_loop().time()
        with pytest.raises(AcquireTimeoutError):
            await call()
        assert asyncio.get_running_loop().time() - began == pytest.approx(1)
    patient = asyncio.create_task(lock.acquire(None))
    await asyncio.sleep(100)
    await hold.release()
    await (await patient).release()


async def test_trying_never_stands_in_line(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """One answer of the server at most, no residue."""
    async with other.lock("k"):
        assert await locks.lock("k").try_acquire() is None
        with pytest.raises(AcquireTimeoutError):
            async with locks.lock("k", wait=0):
                pytest.fail("not reached")
        with pytest.raises(AcquireTimeoutError):
            await locks.lock("k", wait=0).run(int)
        assert await rows(other) == [("web-2", True)]
    async with locks.lock("k", wait=0):
        assert await rows(other) == [("web-1", True)]
    assert await locks.lock("k", wait=0).run(lambda: 7) == 7


async def test_trying_while_local_tasks_hold_or_wait_costs_no_request(locks: LockClient, faults: Faults) -> None:
    """It is known here that the lock is taken."""
    async with locks.lock("k"):
        sent = len(faults.sent)
        assert await asyncio.create_task(locks.lock("k").try_acquire()) is None
        assert len(faults.sent) == sent


async def test_a_cancelled_waiter_leaves_nothing(locks: LockClient, other: LockClient) -> None:
    """Cancelling is a local act; the ticket leaves when nobody is behind it."""
    async with other.lock("k"):
        tasks = [asyncio.create_task(locks.lock("k").acquire()) for _ in range(2)]
        await settle()
        for left in (True, False):
            tasks.pop().cancel()
            await settle()
            assert (("web-1", False) in await rows(other)) is left


async def test_silence_for_a_ttl_is_an_error(locks: LockClient, faults: Faults) -> None:
    """Whatever `wait` says, nobody waits for ever for a server that does not answer."""
    for silence in (faults.go_down, faults.fall_silent):
        silence()
        began = asyncio.get_running_loop().time()
        with pytest.raises(BackendUnavailableError, match="no answer for 'k' within its ttl of 6s"):
            await locks.lock("k", ttl=6).acquire()
        assert 6 <= asyncio.get_running_loop().time() - began < 8
        faults.come_back()
    async with locks.lock("k", ttl=6):
        pass


async def test_a_wait_shorter_than_the_ttl_ends_first(locks: LockClient, faults: Faults) -> None:
    """A server that is down does not keep anybody beyond `wait`."""
    faults.go_down()
    began = asyncio.get_running_loop().time()
    with pytest.raises(AcquireTimeoutError):
        await locks.lock("k", ttl=30).acquire(2)
    assert asyncio.get_running_loop().time() - began == pytest.approx(2)
    faults.come_back()


async def test_too_many_waiters_are_refused() -> None:
    """The limit is the client's; beyond it a task gets an error at once, and later there is room again."""
    async with aiodlock.connect("memory://", clock=LoopClock(), max_waiters=3) as locks:
        lock = locks.lock("k")
        hold = await lock.acquire()
        tasks = [asyncio.create_task(enter(lock, [], n)) for n in range(3)]
        await settle()
        with pytest.raises(TooManyWaitersError, match="'k' is one too many: shed load"):
            await asyncio.create_task(enter(locks.lock("k"), [], "late"))
        tasks[0].cancel()
        await settle()
        tasks.append(asyncio.create_task(enter(lock, [], "in time")))
        await settle()
        await hold.release()
        await asyncio.gather(*tasks[1:])


async def test_functions_that_wait_are_counted_too() -> None:
    """Also across keys; those who gave up make room at once."""
    async with aiodlock.connect("memory://", clock=LoopClock(), max_waiters=3) as locks:
        lock = locks.lock("k")
        async with lock:
            tasks = [asyncio.create_task(lock.run(int)) for _ in range(3)]
            await settle()
            for late in (lock.run(int), locks.lock("other").acquire()):
                with pytest.raises(TooManyWaitersError):
                    await asyncio.create_task(late)
            for task in tasks[1:]:
                task.cancel()
            await settle()
            tasks[1:] = [asyncio.create_task(lock.run(int)) for _ in range(2)]
            await settle()
        assert await asyncio.gather(*tasks) == [0, 0, 0]


async def test_functions_that_gave_up_are_not_kept(locks: LockClient, other: LockClient) -> None:
    """Though the first of the queue waits on."""
    async with other.lock("k"):
        first = asyncio.create_task(locks.lock("k").run(int))
        await settle()
        for _ in range(100):
            with pytest.raises(AcquireTimeoutError):
                await locks.lock("k", wait=0.001).run(int)
        combiner = next(iter(locks._at_work().cohorts.values())).runs
        assert combiner is not None
        assert len(combiner._runs) <= 2
        assert locks._at_work().waiting <= 2
    assert await first == 0


async def test_a_refused_task_leaves_nothing() -> None:
    """Under overload each of them may come with a key of its own."""
    async with aiodlock.connect("memory://", clock=LoopClock(), max_waiters=1) as locks:
        hold = await locks.lock("k").acquire()
        waiter = asyncio.create_task(locks.lock("k").acquire())
        await settle()
        for number in range(10):
            with pytest.raises(TooManyWaitersError):
                await locks.lock(f"k-{number}").acquire()
            with pytest.raises(TooManyWaitersError):
                await locks.lock(f"k-{number}").run(int)
        assert [line.key for line in locks._at_work().lines_in_use()] == ["k"]
        await hold.release()
        await (await waiter).release()


@pytest.mark.parametrize("wait", [None, 0, 5])
async def test_what_the_server_refuses_for_good_is_told_at_once(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch, wait: float | None
) -> None:
    """With its own words: waiting for a ttl would not help."""

    async def refuse(*_: object, **__: object) -> None:
        raise BackendDataError("a key of ours holds something else")

    with monkeypatch.context() as patch:
        patch.setattr(locks.backend, "join", refuse)
        began = asyncio.get_running_loop().time()
        with pytest.raises(BackendDataError, match="lock 'k': a key of ours holds something else") as told:
            await locks.lock("k").acquire(wait)
    assert asyncio.get_running_loop().time() == began
    assert isinstance(told.value.__cause__, BackendDataError)
    async with locks.lock("k"):
        pass


# --- linger ------------------------------------------------------------------------------------------------


async def test_a_lingering_ticket_serves_the_next_task_without_a_request(locks: LockClient, faults: Faults) -> None:
    """It stays for so long after the last release, then it is gone."""
    lock = locks.lock("k", linger=15, ttl=30)
    for _ in range(3):
        async with lock:
            pass
        await asyncio.sleep(10)
    assert faults.sent.count("join") == 1
    assert "leave" not in faults.sent
    await asyncio.sleep(4.9)
    assert await rows(locks) == [("web-1", True)]
    await asyncio.sleep(0.2)
    assert await rows(locks) == []


async def test_a_lingering_ticket_serves_the_next_reader_without_a_request(locks: LockClient, faults: Faults) -> None:
    """The last reader out leaves it behind."""
    menu = locks.rwlock("menu", linger=15, ttl=30)
    for _ in range(3):
        async with menu.read() as hold, asyncio.TaskGroup() as readers:
            readers.create_task(menu.read().run(hold.check))
        await asyncio.sleep(10)
    assert (faults.sent.count("join"), "leave" in faults.sent) == (1, False)


async def test_a_lingering_ticket_goes_when_company_comes(locks: LockClient, other: LockClient) -> None:
    """Who waits does not pay for it; who only tries does not see it as free."""
    async with locks.lock("k", linger=60):
        pass
    assert await other.lock("k").try_acquire() is None
    async with asyncio.timeout(1), other.lock("k"):
        assert await rows(locks) == [("web-2", True)]


async def test_a_lingering_ticket_is_renewed(locks: LockClient, faults: Faults) -> None:
    """Its lease is not shorter than its idleness."""
    lock = locks.lock("k", linger=100, ttl=6)
    async with lock:
        pass
    await asyncio.sleep(90)
    async with lock:
        assert faults.sent.count("join") == 1


# --- where push is not allowed -----------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [Poll(interval=0.5), Retry(times=100, interval=0.5)])
async def test_without_push_a_task_looks(locks: LockClient, other: LockClient, waiting: Poll | Retry) -> None:
    """Calls are lost, and it gets in within about one interval of the release."""
    Faults(locks).calls = "drop"
    hold = await other.lock("k").acquire()
    task = asyncio.create_task(locks.lock("k", waiting=waiting).acquire())
    await asyncio.sleep(10.3)
    await hold.release()
    released = asyncio.get_running_loop().time()
    await (await task).release()
    assert asyncio.get_running_loop().time() - released <= 0.6


async def test_poll_stands_in_line_and_retry_does_not(locks: LockClient, other: LockClient) -> None:
    """Retrying is unfair, and leaves no trace on the server between its tries."""
    async with other.lock("k"):
        for waiting, seen in ((Poll(0.5), [("web-1", False)]), (Retry(100, 0.5), [])):
            task = asyncio.create_task(locks.lock("k", waiting=waiting).acquire())
            await asyncio.sleep(1.2)
            assert await rows(other) == [("web-2", True), *seen]
            task.cancel()
            await settle()


async def test_retry_gives_up_after_its_times(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """So many tries, so far apart."""
    async with other.lock("k"):
        began = asyncio.get_running_loop().time()
        with pytest.raises(AcquireTimeoutError, match="held by web-2"):
            await locks.lock("k", waiting=Retry(times=4, interval=0.5)).acquire()
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.5)
        assert Counter(faults.sent)["join"] == 4


async def test_retry_counts_for_each_task(locks: LockClient, other: LockClient) -> None:
    """A task that comes later has its own number of tries."""
    lock = locks.lock("k", waiting=Retry(times=4, interval=1.0))
    async with other.lock("k"):
        first = asyncio.create_task(lock.acquire())
        await asyncio.sleep(2.5)
        second = asyncio.create_task(lock.acquire())
        began = asyncio.get_running_loop().time()
        with pytest.raises(AcquireTimeoutError):
            await first
        assert not second.done()
        with pytest.raises(AcquireTimeoutError):
            await second
        assert asyncio.get_running_loop().time() - began >= 3.0


async def test_a_client_can_wait_without_push_for_all_its_locks(other: LockClient) -> None:
    """`connect(waiting=)` is what its locks have unless they say otherwise."""
    async with aiodlock.connect("memory://shop", clock=LoopClock(), waiting=Retry(2, 0.1)) as locks:
        assert locks.lock("k").policy.waiting == Retry(2, 0.1)
        async with other.lock("k"):
            with pytest.raises(AcquireTimeoutError):
                await locks.lock("k").acquire()


# --- run and force_release ---------------------------------------------------------------------------------


async def test_functions_of_many_tasks_run_in_one_step(locks: LockClient, faults: Faults) -> None:
    """In order, each with its own result, under one ticket."""
    lock, order = locks.lock("k"), []

    def note(n: int) -> int:
        order.append(n)
        return n * n

    results = await asyncio.gather(*(lock.run(lambda n=n: note(n)) for n in range(100)))
    assert order == list(range(100))
    assert results == [n * n for n in range(100)]
    assert faults.sent.count("join") == 1


async def test_who_comes_again_runs_with_others_and_does_not_stay(locks: LockClient, faults: Faults) -> None:
    """Of three calls only one waits for the loop; nobody gets more than three ahead; all under one ticket."""
    lock, counts, ahead, at_once = locks.lock("k"), [0] * 10, [], []

    async def visit(me: int) -> None:
        for _ in range(50):
            before = loop_steps
            await lock.run(lambda: count(me))
            at_once.append(before == loop_steps)

    def count(me: int) -> None:
        counts[me] += 1
        ahead.append(max(counts) - min(counts))

    async def watch() -> None:
        nonlocal loop_steps
        while True:
            loop_steps += 1
            await asyncio.sleep(0)

    loop_steps = 0
    watcher = asyncio.create_task(watch())
    await asyncio.gather(*map(visit, range(10)))
    watcher.cancel()
    assert counts == [50] * 10
    assert max(ahead) <= 3
    assert 300 < sum(at_once) < 350
    assert faults.sent.count("join") == 1


async def test_a_function_that_starts_others_does_not_run_them_inside_itself(locks: LockClient) -> None:
    """As a task factory that begins tasks eagerly would: they wait until it has ended."""
    lock, order, started = locks.lock("k"), [], []

    def nest() -> None:
        order.append("begin")
        started.extend(_begun(lock.run(lambda name=name: order.append(name))) for name in ("first", "second"))
        order.append("end")

    async def again() -> None:
        await lock.run(lambda: order.append("again"))
        await lock.run(nest)

    await asyncio.gather(again(), again())
    for rest in started:
        await rest
    assert order.count("begin") == order.count("end") == 2
    assert [order[i + 1] for i, step in enumerate(order) if step == "begin"] == ["end", "end"]
    assert sorted(order[2:]).count("first") == sorted(order[2:]).count("second") == 2


def _begun(run: Coroutine[Any, Any, None]) -> Future[None]:
    """Begin *run* here and now; return what it waits for."""
    waits_for = run.send(None)
    assert isinstance(waits_for, asyncio.Future)
    return waits_for


async def calls_and_turns_in_a_busy_process() -> tuple[int, int]:
    """Let two clients run functions while each step of the loop takes longer than a batch; count both."""
    clock, calls = FakeClock(), 0

    def count() -> None:
        nonlocal calls
        calls += 1

    async def run_on(client: LockClient) -> None:
        while hog in asyncio.all_tasks():
            await client.lock("k").run(count)

    async def hold_the_loop_up() -> None:
        for _ in range(200):
            clock.jump(0.03)
            await asyncio.sleep(0)

    async with (
        aiodlock.connect("memory://busy", clock=clock) as one,
        aiodlock.connect("memory://busy", clock=clock) as two,
    ):
        network = Faults(one)
        hog = asyncio.create_task(hold_the_loop_up())
        await asyncio.gather(*(run_on(client) for client in (one, one, two, two)))
        return calls, network.sent.count("join")


async def test_every_turn_runs_something_however_slow_the_loop_is() -> None:
    """Its batch is over before it begins; a turn that is given back unused would keep everybody waiting."""
    calls, turns = await calls_and_turns_in_a_busy_process()
    assert turns > 10
    assert calls >= turns


async def test_who_gives_turns_of_functions_back_unused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: it looks at the clock first."""
    run_batch = Combiner._run_batch

    def look_first(self: Combiner, own: Hold) -> None:
        if self._cohort.engine.now() < own._place.until:
            run_batch(self, own)

    monkeypatch.setattr(Combiner, "_run_batch", look_first)
    calls, turns = await calls_and_turns_in_a_busy_process()
    assert calls < turns


async def test_a_function_that_raises_harms_only_its_own_task(locks: LockClient) -> None:
    """Also StopIteration, which no future can carry."""

    def fail(error: Exception) -> None:
        raise error

    lock = locks.lock("k")
    outcomes = await asyncio.gather(
        lock.run(lambda: fail(ValueError("mine"))),
        lock.run(lambda: fail(StopIteration())),
        lock.run(lambda: "well"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [ValueError, RuntimeError, str]
    assert not await lock.locked()


async def test_run_waits_for_its_turn_and_can_be_cancelled(locks: LockClient, other: LockClient) -> None:
    """A function whose turn has not come is not called."""
    called: list[int] = []
    hold = await other.lock("k").acquire()
    tasks = [asyncio.create_task(locks.lock("k").run(lambda n=n: called.append(n))) for n in range(3)]
    await asyncio.sleep(1)
    assert called == []
    tasks[1].cancel()
    await hold.release()
    await asyncio.wait(tasks)
    assert called == [0, 2]
    await settle()
    assert await rows(other) == []


async def test_run_tells_who_holds_when_its_time_is_over(locks: LockClient, other: LockClient) -> None:
    """The same facts as `acquire` tells."""
    async with other.lock("k"):
        with pytest.raises(AcquireTimeoutError, match="held by web-2"):
            await locks.lock("k", wait=1).run(int)


async def test_run_by_the_owner_is_at_once(locks: LockClient) -> None:
    """A task that holds the lock runs its function without queueing behind itself."""
    async with locks.lock("k"):
        assert await locks.lock("k").run(lambda: 7) == 7


async def test_force_release_by_the_holders_own_client(locks: LockClient, other: LockClient) -> None:
    """The old holder learns it at once, as it would from anybody else's."""
    with pytest.raises(LockLostError):
        async with locks.lock("k"):
            waiter = asyncio.create_task(other.lock("k").acquire())
            await settle()
            assert await locks.lock("k").force_release() == 1
            await asyncio.sleep(1)
            pytest.fail("not reached")
    await (await waiter).release()
    assert await locks.lock("k").force_release() == 0
