"""Semaphore and read-write lock where tasks share tickets: no exact order, but nobody meets, or waits, for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiodlock._core.cohort import Cohort
from aiodlock.testing import run_virtual
from tests.property.test_line import FULL, SIZE, Permits, Step, quick, steps_of
from tests.property.visitors import Town, town

permits = steps_of({"sleep": st.just(0)}, asked=[1, 1, 2, 3])
readers = steps_of({"downgrade": st.just(0), "sleep": st.just(0)}, asked=[1, 1, FULL])
policies = st.lists(st.sampled_from([{}, {}, {"fair": True}, {"linger": 1.0}]), min_size=3, max_size=3)


async def play(place: Town, steps: list[Step], ask: Callable[[int, int], Any], size: int) -> None:
    """Take every step, then give everybody time to notice."""
    weights: dict[int, int] = {}
    for what, number, weight in steps:
        there = sorted(place.inside | place.waiting)
        if what == "ask":
            weights[len(place.visitors)] = weight
            await place.comes(ask(number, weight))
        elif what == "sleep":
            await asyncio.sleep(number / 10)
        elif there and what != "downgrade":
            await place.ends(place.visitors[there[number % len(there)]], what)
        elif there and weights[who := there[number % len(there)]] == FULL and who in place.inside:
            weights[who] = 1
            await place.visitors[who].hold.downgrade()
        free = size - sum(weights[who] for who in place.inside)
        assert free >= 0, f"too many after {what}"
        await asyncio.sleep(2)
        free = size - sum(weights[who] for who in place.inside)
        assert free >= 0, f"too many some time after {what}"
        waiting = [weights[who] for who in place.waiting]
        assert not waiting or max(waiting) > free, f"somebody waits for nothing after {what}"


async def _semaphore(steps: list[Step], settings_of: list[dict[str, Any]]) -> None:
    async with town(3) as place:

        def ask(client: int, weight: int) -> Permits:
            policy = settings_of[weight % 3]
            return Permits(place.clients[client].semaphore("k", permits=SIZE, ttl=3, **policy), weight)

        await play(place, steps, ask, SIZE)


async def _rwlock(steps: list[Step], settings_of: list[dict[str, Any]]) -> None:
    async with town(3) as place:

        def ask(client: int, weight: int) -> Any:
            lock = place.clients[client].rwlock("k", ttl=3, **settings_of[client])
            return lock.write() if weight == FULL else lock.read()

        await play(place, steps, ask, FULL)


@quick
@given(permits, policies)
def test_permits_are_never_too_many_nor_left_unused(steps: list[Step], settings_of: list[dict[str, Any]]) -> None:
    """Tickets that are shared, kept for a while, or of one's own."""
    run_virtual(_semaphore(steps, settings_of))


@quick
@given(readers, policies)
def test_readers_and_writers_never_meet_nor_wait_for_nothing(
    steps: list[Step], settings_of: list[dict[str, Any]]
) -> None:
    """Readers that share a ticket, writers that pass one on, downgrades."""
    run_virtual(_rwlock(steps, settings_of))


# --- broken twins --------------------------------------------------------------------------------------------


def _twice(cohort: Cohort, hold: Any, now: float) -> Any:
    if (waiter := cohort.next_waiter()) is not None:
        waiter.set_result(cohort._hold(cohort, hold._place, now))
    return None if Cohort._hand_on(cohort, hold._place, now) else cohort._retire_place(hold._place)


def _only_tell(own: Any) -> asyncio.Future[Any]:
    engine, place = own._cohort.engine, own._place
    return asyncio.ensure_future(engine.backend.change_weight(place.ticket, 1))


# What to break, and a program that shows it.
Twin = tuple[str, Callable[..., Any], Callable[..., Coroutine[Any, Any, None]], list[Step]]

TWINS: dict[str, Twin] = {
    "a permit is handed on twice": (
        "aiodlock._core.cohort.Cohort.give_back",
        _twice,
        _semaphore,
        [("ask", 0, 3), ("ask", 0, 3), ("ask", 0, 3), ("leave", 0, 0)],
    ),
    "a downgraded place is written in again": (
        "aiodlock.locks.rwlock.WriteHold._read_on",
        _only_tell,
        _rwlock,
        [("ask", 0, FULL), ("ask", 0, FULL), ("ask", 1, 1), ("downgrade", 0, 0), ("leave", 0, 0)],
    ),
    "a place outlives its loss": (
        "aiodlock._core.cohort.Cohort.place_gone",
        lambda self, place, reason: None,
        _rwlock,
        [("ask", 0, FULL), ("ask", 1, FULL), ("lose", 0, 0)],
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_is_caught(monkeypatch: pytest.MonkeyPatch, twin: str) -> None:
    """By the program that shows it, which is harmless without it."""
    name, broken, run, steps = TWINS[twin]
    run_virtual(run(steps, [{}, {}, {}]))
    monkeypatch.setattr(name, broken)
    with pytest.raises(AssertionError, match=r"after|wait"):
        run_virtual(run(steps, [{}, {}, {}]))
