"""Processes that die or are frozen: what it costs the others, and what is left of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import ExitStack

import pytest

from aiodlock.backends.zookeeper.paths import in_order
from aiodlock.testing.history import Event, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.zookeeper.support import LATE, SESSION, TICK, Visits, client, in_line, nodes, until

CONTEND = "tests.integration.zookeeper.workers:contend"
QUEUE_UP = "tests.integration.zookeeper.workers:queue_up"


async def _kill_a_holder(server: ZooKeeperServer, key: str, function: str) -> list[Event]:
    """Let another one wait for a process that holds, kill that, and return what both believed."""
    visits = Visits(key)
    async with client(server.url, session=10.0, name="next") as mine:
        with Worker(function, url=server.url, key=key, session=SESSION, stay=60.0) as dead:
            await asyncio.to_thread(dead.await_event, "inside", within=15.0)
            entering = asyncio.create_task(visits.stay(mine))
            await in_line(mine, key, 2)
            dead.kill()
            async with asyncio.timeout(SESSION + TICK + LATE):
                await entering
    return [*dead.events(), *visits.events]


async def test_a_killed_holder_costs_its_session(server: ZooKeeperServer, key: str) -> None:
    """And a tick; how little beyond is measured by benchmarks.ends. Its fence is the smaller one."""
    history = stays(await _kill_a_holder(server, key, CONTEND))
    assert len(history) == 2
    assert check_exclusion(history) + check_fencing(history) == []


async def test_that_finds_a_node_that_outlives_its_process(server: ZooKeeperServer, key: str) -> None:
    """One that belongs to nobody's session."""
    with pytest.raises(TimeoutError):
        await _kill_a_holder(server, key, f"{CONTEND}_with_nodes_that_stay")


async def _freeze_a_holder(server: ZooKeeperServer, key: str, function: str) -> list[Event]:
    """Let two processes take turns, freeze one until the other was inside three times more, and go on."""
    workers = [Worker(function, who=f"w{n}", url=server.url, key=key, session=SESSION, stay=0.3) for n in range(2)]
    with workers[0] as frozen, workers[1] as other:
        await asyncio.to_thread(other.await_event, "inside", within=15.0, count=2)
        came = sum(event.what == "inside" for event in frozen.events())
        await asyncio.to_thread(frozen.await_event, "inside", within=15.0, count=came + 1)
        with frozen.paused():
            entered = sum(event.what == "inside" for event in other.events())
            await asyncio.to_thread(other.await_event, "inside", within=15.0, count=entered + 3)
        came = sum(event.what == "inside" for event in frozen.events())
        await asyncio.to_thread(frozen.await_event, "inside", within=15.0, count=came + 2)
    return [*frozen.events(), *other.events()]


async def test_a_frozen_holder_knows_that_it_was_too_long(server: ZooKeeperServer, key: str) -> None:
    """Others get in meanwhile; when it wakes up it does not believe for a moment."""
    history = stays(await _freeze_a_holder(server, key, CONTEND))
    assert len(history) >= 8
    assert check_exclusion(history) == []
    assert check_fencing(history) == []


async def test_that_finds_a_holder_that_believes_in_its_waiting_life(server: ZooKeeperServer, key: str) -> None:
    """The session is shorter: another one is inside before that life ends."""
    history = stays(await _freeze_a_holder(server, key, f"{CONTEND}_and_believe_calls"))
    assert check_exclusion(history) != []


def _is_subsequence(some: Iterable[object], of: Iterable[object]) -> bool:
    rest = iter(of)
    return all(thing in rest for thing in some)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_three_hundred_waiters_of_six_processes_enter_in_order(server: ZooKeeperServer, key: str) -> None:
    """Some of which are killed: who enters does so in the order of arrival, and nothing is left in the tree."""
    chance = random.Random(7)
    async with client(server.url, session=30.0, name="first") as mine, client(server.url, name="observer") as observer:
        hold = await mine.lock(key).acquire()
        with ExitStack() as stack:
            # They stay a while, so that none is through before it can be killed.
            settings = {"url": server.url, "key": key, "session": 5.0, "tasks": 50, "stay": 0.02}
            workers = [stack.enter_context(Worker(QUEUE_UP, who=f"w{n}", **settings)) for n in range(6)]
            for worker in workers:
                await asyncio.to_thread(worker.await_event, "standing", within=60.0)
            await in_line(observer, key, 301)
            arrival = [node.id for node in in_order(await nodes(observer, key), size=1)]
            owners = {row.id: (row.owner, row.epoch) async for row in observer.inspect(key)}
            assert len(owners) == 301
            await hold.release()
            for worker in chance.sample(workers, 2):
                entered = chance.randrange(5, 20)
                await asyncio.to_thread(worker.await_event, "left", within=60.0, count=entered)
                worker.kill()
            alive = [worker for worker in workers if worker.running]
            for worker in alive:
                await asyncio.to_thread(worker.join, within=100.0)
            events = [event for worker in workers for event in worker.events()]
        _check_order(events, [owners[id_][0] for id_ in arrival[1:]])
        assert sum(event.what == "done" for event in events) == 4
        await in_line(observer, key, 0)
        await until(lambda: _has_no_line(observer, key))


def _check_order(events: list[Event], arrival: list[str]) -> None:
    history = stays(events)
    assert len(history) >= 210
    assert check_exclusion(history) == []
    assert check_fencing(history) == []
    assert _is_subsequence([stay.who for stay in history], arrival)
    for who in {stay.who for stay in history}:
        numbers = [event.facts["number"] for event in events if event.who == who and event.what == "inside"]
        assert numbers == sorted(numbers, key=lambda number: int(str(number)))


async def _has_no_line(observer: object, key: str) -> bool:
    return key not in await observer.backend._tree.children("/aiodlock/lock")  # type: ignore[attr-defined]


def test_that_order_is_checked() -> None:
    """Two who changed places are found."""
    assert _is_subsequence("ac", "abc")
    assert not _is_subsequence("ca", "abc")
