"""A scheduled job that one node runs (E4): real processes on a real server, and the leader is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from aiodlock.testing.history import Event, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import RedisServer, require


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    require(RedisServer)
    with RedisServer() as server:
        yield server.url


def node(url: str, name: str, *, role: str) -> Worker:
    return Worker("tests.integration.nodes:serve", who=name, url=url, role=role)


def run_twice(events: Iterable[Event]) -> list[object]:
    """Return the ticks at which more than one node ran the job."""
    ran = {(event.facts["tick"], event.who) for event in events if event.what == "ran"}
    return [tick for tick, nodes in Counter(tick for tick, _ in ran).items() if nodes > 1]


def test_when_the_leader_is_killed_another_goes_on(url: str) -> None:
    """No tick runs twice, nobody leads beside another, and the next leader has a larger fence."""
    with node(url, "node-1", role="report") as first:
        first.await_event("ran", within=20, count=3)
        with node(url, "node-2", role="report") as second:
            first.await_event("ran", within=20, count=10)
            assert second.events() == []
            first.kill()
            second.await_event("ran", within=30, count=3)
    history = stays(events := [*first.events(), *second.events()])
    assert [stay.who for stay in history] == ["node-1", "node-2"]
    assert run_twice(events) == []
    assert check_exclusion(history) == []
    assert check_fencing(history) == []


def test_nodes_that_do_not_share_a_role_are_found(url: str) -> None:
    """The broken twin: each leads by itself, and ticks run twice."""
    with node(url, "node-1", role="mine") as first, node(url, "node-2", role="yours") as second:
        first.await_event("ran", within=20, count=3)
        second.await_event("ran", within=20, count=10)
        first.await_event("ran", within=20, count=20)
    assert run_twice([*first.events(), *second.events()])
