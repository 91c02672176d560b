"""The suite on other topologies: a short matrix in every run, all of it where there is time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiodlock.backends.base import Capabilities
from aiodlock.testing.conformance import CHECKS, Check, World, run
from aiodlock.testing.servers import RedisReplica, RedisSentinel, RedisServer, SentinelService, require
from tests.conformance.topologies import ReplicatedWorld, SentinelWorld

# What a topology could break: the way of an answer, of a call, of a doubt, and one check of every kind.
SHORT = {
    "a_parked_waiter_looks_after_a_reconnect",
    "a_release_whose_answer_is_lost_is_done_once",
    "a_waiter_in_doubt_leaves_no_ticket",
    "all_or_nothing",
    "an_acquire_whose_answer_is_lost_is_one_hold",
    "an_outage_longer_than_the_lease_is_noticed_before_others_get_in",
    "everybody_who_waits_is_let_through_at_zero",
    "never_more_than_its_permits",
    "one_at_a_time",
    "one_leads_and_everybody_knows_who",
    "readers_do_not_starve_a_writer",
    "the_end_of_a_lease_frees_the_lock_and_wakes_the_next",
    "the_whole_key_is_all_segments",
}


@pytest.fixture(scope="session")
def replicated() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as master, RedisReplica(of=master.port):
        yield master


@pytest.fixture(scope="session")
def sentinel_service() -> Iterator[SentinelService]:
    require(RedisServer)
    require(RedisSentinel)
    with SentinelService(down_after=10) as running:  # no failover because the machine is busy
        yield running


TOPOLOGIES: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "replicas": lambda request: ReplicatedWorld(request.getfixturevalue("replicated")),
    "sentinel": lambda request: SentinelWorld(request.getfixturevalue("sentinel_service")),
}
EXPECTED = {
    "replicas": Capabilities(kinds=frozenset({"lock", "rwlock", "semaphore", "latch"}), trusts_calls=False, stock=True),
    "sentinel": Capabilities(kinds=frozenset({"lock", "rwlock", "semaphore", "latch"}), stock=True),
}


def _marked(check: Check) -> Any:
    return pytest.param(check, id=check.name, marks=() if check.name in SHORT else pytest.mark.long)


@pytest.fixture(params=TOPOLOGIES)
def world(request: pytest.FixtureRequest) -> World:
    return TOPOLOGIES[request.param](request)


@pytest.mark.parametrize("check", [_marked(check) for check in CHECKS])
def test_conformance(world: World, check: Check) -> None:
    """Every check, on every topology; none is left out for good."""
    run(check, world)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_topology_can_do_what_the_table_says(topology: str, request: pytest.FixtureRequest) -> None:
    found: list[Capabilities] = []

    async def ask(world: World) -> None:
        found.append(world.capabilities)

    run(Check(ask), TOPOLOGIES[topology](request))
    assert found == [EXPECTED[topology]]


def test_the_short_matrix_names_checks_that_exist() -> None:
    assert {check.name for check in CHECKS} >= SHORT
