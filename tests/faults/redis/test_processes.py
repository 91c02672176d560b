"""A client's process is frozen past its lease, or killed."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.testing.history import Event, check_exclusion, check_fencing, stays
from aiodlock.testing.servers import RedisServer
from tests.faults.crew import Crew, judge, naively
from tests.faults.redis.admin import ask, in_line, left_on

TTL = 3.0

pytestmark = pytest.mark.timeout(180)


def freeze_a_holder(server: RedisServer) -> tuple[str, list[Event]]:
    """Freeze a holder for one and a half leases, while another one waits; return the key and what both saw."""
    with Crew("hold", [server.url], ttl=TTL) as crew:
        frozen = crew.workers[0]
        frozen.await_event("renewed", within=30, count=10)
        with frozen.paused():
            waiting = crew.join(server.url)
            waiting.await_event("inside", within=30)
            waiting.await_event("renewed", within=30, count=round(TTL / 2 / 0.01))
        frozen.await_event("lost", within=30)
        return crew.key, crew.finish()


def test_a_holder_that_was_frozen_past_its_lease_knows_it_first_of_all(server: RedisServer) -> None:
    """It stopped to believe before the next one began, and does not get in again in silence."""
    key, events = freeze_a_holder(server)
    assert judge(events) == []
    assert [stay.who for stay in stays(events)] == ["worker-0", "worker-1"]
    assert asyncio.run(left_on(server, key)) == []
    naive = stays(map(naively, events))  # the broken twin: who ignores the loss
    assert [violation.rule for violation in check_exclusion(naive)] == ["exclusion"]
    assert check_fencing(naive) == []


def kill_a_holder(server: RedisServer, *, ttl: float = TTL, meanwhile: tuple[str, ...] = ()) -> tuple[str, list[Event]]:
    """Kill a holder while two others wait, and one of these as well."""
    with Crew("hold", [server.url], ttl=ttl) as crew:
        crew.workers[0].await_event("inside", within=30)
        for count in (2, 3):
            crew.join(server.url)
            asyncio.run(in_line(server, crew.key, count))
        holder, waiter, last = crew.workers
        holder.kill()
        waiter.kill()
        if meanwhile:
            ask(server, *(word.format(key=crew.key) for word in meanwhile))
        last.await_event("inside", within=30)
        return crew.key, crew.finish()


def test_a_killed_holder_and_a_killed_waiter_cost_a_lease(server: RedisServer) -> None:
    """The next living one enters when the lease is over, not before; nothing stays of the dead."""
    key, events = kill_a_holder(server)
    assert judge(events) == []
    assert {"worker-0", "worker-2"} <= {stay.who for stay in stays(events)}
    assert asyncio.run(left_on(server, key, within=5 * TTL)) == []


@pytest.mark.long
def test_a_lease_that_somebody_deletes_is_seen(server: RedisServer) -> None:
    """The broken twin: an administrator who is sure that the holder is dead, and is not patient."""
    _, events = kill_a_holder(server, ttl=3.0, meanwhile=("DEL", "aiodlock:{{{key}}}:lock"))
    assert any(line.startswith("exclusion") for line in judge(events))


@pytest.mark.long
@pytest.mark.timeout(180)
def test_processes_that_are_killed_and_frozen_under_load(server: RedisServer) -> None:
    """One dies and one freezes in every round, new ones come, and nobody is ever inside beside a holder."""
    with Crew("contend", [server.url] * 4, kind="lock", tasks=3, ttl=TTL) as crew:
        for round_ in range(6):
            crew.await_more(5)
            crew.workers[round_].kill()
            crew.join(server.url).await_event("connected", within=30)
            frozen = crew.workers[-2]
            with frozen.paused():
                others = [worker for worker in crew.workers if worker.running and worker is not frozen]
                for worker in others:
                    seen = sum(event.what == "inside" for event in worker.events())
                    worker.await_event("inside", within=30, count=seen + 5)
        events = crew.finish()
    assert judge(events) == []
    assert asyncio.run(left_on(server, crew.key, within=5 * TTL)) == []
