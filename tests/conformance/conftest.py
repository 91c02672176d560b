"""Servers for the worlds that need one, and the worlds themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiodlock.testing.conformance import CHECKS, MemoryWorld, World
from aiodlock.testing.servers import RedisCluster, RedisServer, require
from tests.conformance.worlds import ClusterWorld, RedisWorld


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    require(RedisServer)
    with RedisCluster() as running:
        yield running


# A further backend is one more entry: what to do with pytest's request to get a world of it.
WORLDS: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "memory": lambda request: MemoryWorld(),
    "redis": lambda request: RedisWorld(request.getfixturevalue("redis_server")),
    "cluster": lambda request: ClusterWorld(request.getfixturevalue("redis_cluster")),
}


# Of these backends `make test` runs only what is shared by all kinds; `make test-long` runs everything.
LONG = {"cluster"}
SHORT = {
    *(check.name for check in CHECKS if check.prove.__module__.endswith("conformance.verbs")),
    *(
        "one_at_a_time",
        "a_counter_is_exact",
        "closing_leaves_nothing",
        "nobody_overtakes",
        "two_busy_clients_take_turns",
    ),
    *("readers_share_and_a_writer_is_alone", "never_more_than_its_permits", "opposite_orders_never_deadlock"),
    *("everybody_who_waits_is_let_through_at_zero", "the_whole_key_is_all_segments"),
    *("an_acquire_whose_answer_is_lost_is_one_hold", "a_parked_waiter_looks_after_a_reconnect"),
    "an_outage_longer_than_the_lease_is_noticed_before_others_get_in",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        facts = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if facts.get("backend") in LONG and "check" in facts and facts["check"].name not in SHORT:
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=WORLDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend of ours."""
    return str(request.param)


@pytest.fixture
def world(request: pytest.FixtureRequest, backend: str) -> World:
    """A fresh world of that backend."""
    return WORLDS[backend](request)
