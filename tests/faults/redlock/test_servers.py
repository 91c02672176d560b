"""Independent masters hang, die, and forget: what a majority survives, and what it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from aiodlock.testing.history import check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker, WorkerFailedError
from aiodlock.testing.servers import IndependentMasters
from tests.faults.crew import Crew, judge
from tests.faults.leftovers import left_at
from tests.faults.redlock.conftest import MovableClock

KINDS = ["lock", pytest.param("rwlock", marks=pytest.mark.long)]
MORE = {"within": 30.0}

pytestmark = pytest.mark.timeout(240)


def left_in(masters: IndependentMasters, key: str) -> list[str]:
    """Say what is left on any of the servers that run, asked one by one: a majority may not know it."""
    running = [node for node in masters.nodes if node.running]
    return asyncio.run(left_at([node.url for node in running], running, key))


@pytest.mark.parametrize("kind", KINDS)
def test_one_server_that_hangs_is_not_waited_for(masters: IndependentMasters, kind: str) -> None:
    """Nobody is inside beside a holder, everybody gets on while it hangs and when it answers what had piled up."""
    with Crew("contend", [masters.url] * 3, kind=kind, tasks=2, ttl=30.0) as crew:
        crew.await_more(3, **MORE)
        with masters.nodes[0].paused():
            crew.await_more(3, **MORE)
        crew.await_more(3, **MORE)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert left_in(masters, crew.key) == []


@pytest.mark.parametrize("kind", KINDS)
def test_two_servers_may_die(masters: IndependentMasters, kind: str) -> None:
    with Crew("contend", [masters.url] * 3, kind=kind, tasks=2, ttl=30.0) as crew:
        crew.await_more(3, **MORE)
        for node in masters.nodes[:2]:
            node.crash()
        crew.await_more(3, **MORE)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert left_in(masters, crew.key) == []


def hang(masters: IndependentMasters) -> None:
    masters.nodes[0].pause()


def die(masters: IndependentMasters) -> None:
    for node in masters.nodes[:2]:
        node.crash()


@pytest.mark.parametrize("harm", [hang, die])
def test_servers_that_are_away_show_who_needs_all(
    masters: IndependentMasters, harm: Callable[[IndependentMasters], None]
) -> None:
    """The broken twin of the two above: nobody gets on before they are back."""
    with Crew("contend", [masters.url] * 2, kind="lock", tasks=1, ttl=2.0, twin="needs_all") as crew:
        crew.await_more(3, **MORE)
        harm(masters)
        with pytest.raises(WorkerFailedError, match="without event 'inside'"):
            crew.await_more(3, within=5.0)


@pytest.mark.long
def test_one_server_may_forget_at_a_time(masters: IndependentMasters) -> None:
    """Each is restarted empty in turn, with a lease in between: so late that nobody it forgot still relies on it."""
    with Crew("contend", [masters.url] * 3, kind="lock", tasks=2, ttl=1.0) as crew:
        for node in masters.nodes:
            crew.await_more(3, **MORE)
            node.crash()
            crew.await_more(3, **MORE)
            time.sleep(1.5)  # the delayed restart that operators are asked for: longer than any lease it forgot
            node.start()
        crew.await_more(3, **MORE)
        events = crew.finish()
    assert judge(events) == []
    assert left_in(masters, crew.key) == []


def hold_and_take(crew: Crew, masters: IndependentMasters, harm: Callable[[], None]) -> Worker:
    """Let one worker hold, do *harm* to the servers, and let another one try to hold the same."""
    first = crew.join(masters.url)
    first.await_event("inside", within=30)
    harm()
    return crew.join(masters.url)


def test_one_server_that_forgot_lets_nobody_in(masters: IndependentMasters) -> None:
    """Four still know who holds; the hold goes on, though the fifth is not asked to take it again."""

    def restart() -> None:
        masters.nodes[0].crash()
        masters.nodes[0].start()

    with Crew("hold", [], ttl=3.0) as crew:
        second = hold_and_take(crew, masters, restart)
        crew.workers[0].await_event("renewed", within=60, count=400)  # four seconds: more than a lease
        assert not any(event.what == "inside" for event in second.events())
        assert judge(crew.finish()) == []
    assert left_in(masters, crew.key) == []


def test_a_majority_that_forgot_lets_two_in(masters: IndependentMasters) -> None:
    """What is not promised, and the twin of the test above; the fence is right all the same."""

    def restart() -> None:
        for node in masters.nodes[:3]:
            node.crash()
            node.start()

    with Crew("hold", [], ttl=60.0) as crew:
        hold_and_take(crew, masters, restart).await_event("inside", within=30)
        history = stays(crew.finish())
    assert [violation.rule for violation in check_exclusion(history)] == ["exclusion"]
    assert check_fencing(history) == []
    assert left_in(masters, crew.key) == []


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_majority_whose_clocks_jump_lets_two_in(
    with_movable_clocks: Callable[[int], IndependentMasters], count: int
) -> None:
    """Leases end early where the clock jumps ahead: two servers are not enough for another holder, three are."""
    masters = with_movable_clocks(3)
    movable = [node for node in masters.nodes if isinstance(node, MovableClock)]

    def jump() -> None:
        for node in movable[:count]:
            node.jump(120.0)

    with Crew("hold", [], ttl=60.0) as crew:
        second = hold_and_take(crew, masters, jump)
        if count < 3:
            crew.workers[0].await_event("renewed", within=30, count=100)
            assert not any(event.what == "inside" for event in second.events())
            assert judge(crew.finish()) == []
            assert left_in(masters, crew.key) == []
            return
        second.await_event("inside", within=30)
        history = stays(crew.finish())
    assert [violation.rule for violation in check_exclusion(history)] == ["exclusion"]
    assert check_fencing(history) == []
    assert left_in(masters, crew.key) == []
