"""One watchdog per client: slots, batches, and one timer whatever the number of holds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock._core.watchdog import Watchdog
from aiodlock.testing import FakeClock, Faults
from tests.acceptance import acceptance


class Place:
    """What the watchdog knows of a place."""

    def __init__(self) -> None:
        self.slot: float | None = None


class Visits:
    """A watchdog on a fake clock, and whom it visited when."""

    def __init__(self) -> None:
        self.clock = FakeClock(start=0.0)
        self.seen: list[tuple[float, list[Place]]] = []
        self.watchdog = Watchdog(self.clock, lambda places, now: self.seen.append((now, places)))


@pytest.fixture
def visits() -> Visits:
    return Visits()


async def test_a_place_is_visited_when_it_is_due(visits: Visits) -> None:
    """Exactly then, once."""
    place = Place()
    visits.watchdog.watch(place, 5.0)
    await visits.clock.advance(4.9)
    assert visits.seen == []
    await visits.clock.advance(100)
    assert visits.seen == [(5.0, [place])]
    assert place.slot is None


async def test_places_of_one_slot_are_visited_together_and_early(visits: Visits) -> None:
    """Due times are rounded down, never up: a renewal must not be late."""
    places = [Place() for _ in range(10)]
    for n, place in enumerate(places):
        visits.watchdog.watch(place, 10.0 + n / 100, slack=1.0)
    await visits.clock.advance(20)
    assert visits.seen == [(10.0, places)]


async def test_ten_thousand_places_need_one_timer(visits: Visits) -> None:
    """However far apart they are due."""
    for n in range(10_000):
        visits.watchdog.watch(Place(), 100.0 + n)
    assert visits.clock.timers == 1
    await visits.clock.advance(200)
    assert len(visits.seen) == 101
    assert visits.clock.timers == 1


async def test_an_earlier_visit_moves_the_timer(visits: Visits) -> None:
    """Also when a later one is armed."""
    late, early = Place(), Place()
    visits.watchdog.watch(late, 50.0)
    visits.watchdog.watch(early, 5.0)
    assert visits.clock.timers == 1
    await visits.clock.advance(100)
    assert visits.seen == [(5.0, [early]), (50.0, [late])]


async def test_a_new_plan_replaces_the_old_one(visits: Visits) -> None:
    """Earlier or later."""
    place = Place()
    visits.watchdog.watch(place, 5.0)
    visits.watchdog.watch(place, 50.0)
    visits.watchdog.watch(place, 20.0)
    await visits.clock.advance(100)
    assert visits.seen == [(20.0, [place])]


async def test_a_forgotten_place_is_not_visited(visits: Visits) -> None:
    """Forgetting twice is allowed."""
    place, other = Place(), Place()
    visits.watchdog.watch(place, 5.0)
    visits.watchdog.watch(other, 5.0)
    visits.watchdog.forget(place)
    visits.watchdog.forget(place)
    await visits.clock.advance(10)
    assert visits.seen == [(5.0, [other])]


async def test_slots_of_forgotten_places_are_not_kept(visits: Visits) -> None:
    """However many holds of a client end before their time inside is over."""
    stays = Place()
    visits.watchdog.watch(stays, 50_000.0)
    for number in range(10_000):
        place = Place()
        visits.watchdog.watch(place, 20_000.0 - number)
        visits.watchdog.forget(place)
    assert len(visits.watchdog._slots) == len(visits.watchdog._order) < 1_000
    await visits.clock.advance(50_000)
    assert visits.seen == [(50_000.0, [stays])]


async def test_forgotten_places_cost_no_wake_up(visits: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most plans are never carried out: a hold is released before it is due."""
    wakes: list[float] = []
    call_at = visits.clock.call_at
    monkeypatch.setattr(visits.clock, "call_at", lambda when, wake: (wakes.append(when), call_at(when, wake))[1])
    for n in range(1_000):
        place = Place()
        visits.watchdog.watch(place, 5.0 + n)
        visits.watchdog.forget(place)
    visits.watchdog.watch(last := Place(), 2_000.0)
    await visits.clock.advance(3_000)
    assert visits.seen == [(2_000.0, [last])]
    assert wakes == [5.0, 2_000.0]


async def test_a_visit_may_plan_the_next(visits: Visits) -> None:
    """For the same place and for others, also for now."""

    def visit(places: list[Place], now: float) -> None:
        seen.append(now)
        if len(seen) < 4:
            visits.watchdog.watch(places[0], now + 3.0)

    seen: list[float] = []
    visits.watchdog._visit = visit
    visits.watchdog.watch(Place(), 3.0)
    await visits.clock.advance(100)
    assert seen == [3.0, 6.0, 9.0, 12.0]
    assert visits.clock.timers == 0


async def test_a_thaw_visits_all_that_is_overdue_at_once(visits: Visits) -> None:
    """After a freeze nobody waits for his own slot."""
    places = [Place() for _ in range(3)]
    for n, place in enumerate(places):
        visits.watchdog.watch(place, float(n + 1))
    visits.clock.jump(60)
    await visits.clock.advance(0)
    assert visits.seen == [(60.0, places)]


async def test_a_stopped_watchdog_visits_nobody(visits: Visits) -> None:
    """It leaves no timer, and a place that comes late does no harm."""
    place = Place()
    visits.watchdog.watch(place, 5.0)
    visits.watchdog.stop()
    assert visits.clock.timers == 0
    visits.watchdog.forget(place)
    await visits.clock.advance(10)
    assert visits.seen == []


# --- at work -----------------------------------------------------------------------------------------------


@acceptance(23)
async def test_ten_thousand_holds_are_renewed_in_batches() -> None:
    """One timer; few calls per third of the ttl; nobody's lease ends."""
    clock = FakeClock()
    async with aiodlock.connect("memory://", clock=clock) as locks:
        faults = Faults(locks)
        holds = []
        for n in range(10_000):
            holds.append(await locks.lock(f"k{n}", ttl=30).acquire())
            clock.jump(0.0005)  # they come over five seconds
        assert clock.timers == 1
        before = asyncio.all_tasks()
        for _ in range(4):
            await clock.advance(9)  # more than a ttl in all
            assert clock.timers == 1
        assert asyncio.all_tasks() == before
        assert not any(hold.lost for hold in holds)
        assert faults.sent.count("renew") <= 40  # a slot is a 32nd of the ttl: about six slots, four rounds
        for hold in holds:
            hold.release_nowait()


@pytest.mark.parametrize("ttl", [1.0, 5.0, 5.5, 8.0, 30.0])
async def test_a_hold_is_renewed_when_a_third_of_its_ttl_is_over(locks: LockClient, faults: Faults, ttl: float) -> None:
    """Not much before, and not after: also where a ticket waits for a shorter time than it holds."""
    async with locks.lock("k", ttl=ttl):
        await asyncio.sleep(0.29 * ttl)
        assert "renew" not in faults.sent
        await asyncio.sleep(0.05 * ttl)
        assert faults.sent.count("renew") == 1
        await asyncio.sleep(0.33 * ttl)
        assert faults.sent.count("renew") == 2


async def test_a_life_shorter_than_the_ttl_is_renewed_when_a_third_of_it_is_over(
    locks: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a lease is a session: the visit that was planned for the join would be late."""
    join = locks.backend.join

    async def shorter(*arguments: Any, **settings: Any) -> Any:
        return replace(await join(*arguments, **settings), remaining=2.0)

    monkeypatch.setattr(locks.backend, "join", shorter)
    async with locks.lock("k", ttl=4.0):
        await asyncio.sleep(0.6)
        assert faults.sent == ["join"]
        await asyncio.sleep(0.1)
        assert faults.sent == ["join", "renew"]


async def test_waiting_tickets_and_holds_are_renewed_by_the_same_calls(locks: LockClient, faults: Faults) -> None:
    """What is due together goes out together."""
    renewed: list[int] = []
    renew = locks.backend.renew
    locks.backend.renew = lambda tickets: (renewed.append(len(tickets)), renew(tickets))[1]
    holds = [await locks.lock(f"k{n}", ttl=30).acquire() for n in range(100)]
    await asyncio.sleep(95)
    assert sum(renewed) == len(renewed) * 100
    for hold in holds:
        await hold.release()
