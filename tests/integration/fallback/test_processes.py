"""Processes whose server dies contend on its fallback, and go back when it is there again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from aiodlock.testing.history import Event, check_exclusion, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import RedisServer, require

WHO = ["p0", "p1", "p2"]


@pytest.fixture
def own() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as server:
        yield server


@pytest.fixture
def spare() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as server:
        yield server


def lose_the_server(own: RedisServer, fallback: str) -> tuple[list[Event], list[Event]]:
    """Let three processes contend while their server dies and comes back; return what was until then, and after."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                Worker(
                    "tests.integration.fallback.contenders:contend", who=who, url=own.url, fallback=fallback, ttl=1.5
                )
            )
            for who in WHO
        ]
        await_all(workers, "own")
        own.crash()
        await_all(workers, "fallback")
        before = [event for worker in workers for event in worker.events()]
        own.start()
        await_all(workers, "own")
    events = [event for worker in workers for event in worker.events()]
    return before, events


def await_all(workers: list[Worker], server: str) -> None:
    """Return when each of them has had three more holds of this server."""
    for worker in workers:
        seen = sum(event.what == server for event in worker.events())
        worker.await_event(server, within=40, count=seen + 3)


def test_processes_that_degrade_together_exclude_each_other(own: RedisServer, spare: RedisServer) -> None:
    """Strictly until the server is back; while they go back one by one, on each of the two servers by itself."""
    before, events = lose_the_server(own, spare.url)
    assert {stay.who for stay in stays(before)} == {*WHO}
    assert check_exclusion(stays(before)) == []
    assert check_exclusion(stays(by_server(events))) == []


def test_a_fallback_of_which_each_process_has_its_own_is_found(own: RedisServer) -> None:
    """The broken twin, and what ``fallback="memory://"`` means: tasks of one process exclude each other, no more."""
    before, _ = lose_the_server(own, "memory://")
    assert check_exclusion(stays(before))


def by_server(events: list[Event]) -> list[Event]:
    """Return the events with the server as a part of the key."""
    return [
        replace(event, facts={**event.facts, "key": f"{event.facts['key']} of {event.facts['server']}"})
        if "server" in event.facts
        else event
        for event in events
    ]
