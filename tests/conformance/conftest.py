"""Servers for the worlds that need one, and the worlds themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from aiodlock.backends.mysql import LockTable
from aiodlock.backends.mysql.address import Address as MySQLAddress
from aiodlock.backends.mysql.link import Link
from aiodlock.testing.conformance import CHECKS, Check, MemoryWorld, World
from aiodlock.testing.servers import (
    IndependentMasters,
    MariaDBServer,
    RedisCluster,
    RedisServer,
    ZooKeeperEnsemble,
    ZooKeeperServer,
    require,
)
from tests.conformance.cannot import CANNOT
from tests.conformance.worlds import (
    ClusterWorld,
    LockTableWorld,
    MySQLWorld,
    RedisWorld,
    RedlockWorld,
    ZooKeeperWorld,
)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    require(RedisServer)
    with RedisCluster(silence=10) as running:  # no failover because the machine is busy
        yield running


@pytest.fixture(scope="session")
def redis_masters() -> Iterator[IndependentMasters]:
    require(RedisServer)
    with IndependentMasters() as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[ZooKeeperServer]:
    require(ZooKeeperServer)
    with ZooKeeperServer() as running:
        yield running


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    require(MariaDBServer)
    with MariaDBServer() as running:
        asyncio.run(_make_lock_table(running))
        yield running


async def _make_lock_table(server: MariaDBServer) -> None:
    link = await Link.open(MySQLAddress.from_url(server.url))
    await link.ask(LockTable.from_url(server.url, table="conforming_locks").definition)
    await link.aclose()


@pytest.fixture(scope="session")
def zookeeper_ensemble() -> Iterator[ZooKeeperEnsemble]:
    require(ZooKeeperServer)
    with ZooKeeperEnsemble(silence=50) as running:  # no election because the machine is busy
        yield running


# A further backend is one more entry: what to do with pytest's request to get a world of it.
WORLDS: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "memory": lambda request: MemoryWorld(),
    "redis": lambda request: RedisWorld(request.getfixturevalue("redis_server")),
    "cluster": lambda request: ClusterWorld(request.getfixturevalue("redis_cluster").nodes),
    "redlock": lambda request: RedlockWorld(request.getfixturevalue("redis_masters").nodes),
    "mysql": lambda request: MySQLWorld(request.getfixturevalue("mariadb_server")),
    "mysql-looking": lambda request: MySQLWorld(request.getfixturevalue("mariadb_server"), pushes=False),
    "lock-table": lambda request: LockTableWorld(request.getfixturevalue("mariadb_server")),
    "zookeeper": lambda request: ZooKeeperWorld([request.getfixturevalue("zookeeper_server")]),
    "zookeeper-3": lambda request: ZooKeeperWorld(request.getfixturevalue("zookeeper_ensemble").nodes),
}


# Of these backends `make test` runs only what is shared by all kinds; `make test-long` runs everything.
LONG = {"cluster", "lock-table", "mysql", "mysql-looking", "redlock", "zookeeper"}
SLOW = {("mysql-looking", "one_at_a_time")}
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
    "a_downgrade_whose_answer_is_lost_is_done_once",
    "an_outage_longer_than_the_lease_is_noticed_before_others_get_in",
    *(
        "everything_is_sold_and_nothing_twice",
        "an_order_is_taken_once",
        "one_order_per_buyer",
        "what_goes_back_is_sold_again",
    ),
    *("the_outbox_tells_every_movement_in_order", "histories_of_many_clients_are_linearizable"),
    *("a_take_whose_answer_is_lost_is_one_order", "a_take_around_its_put_back_takes_nothing"),
}

# Of an ensemble still less: what differs there is that a server may be behind, and a client go from one to another.
OF_AN_ENSEMBLE = {
    *("joining_again_is_looking", "leaving_lets_the_next_one_in_and_calls_it", "standing_again_in_vain_leaves_nothing"),
    *("a_smaller_weight_lets_others_in", "another_size_lets_others_in_or_refuses_them"),
    *("readers_share_and_a_writer_is_alone", "never_more_than_its_permits", "a_parked_waiter_looks_after_a_reconnect"),
    *("an_acquire_whose_answer_is_lost_is_one_hold", "a_downgrade_whose_answer_is_lost_is_done_once"),
    "an_outage_longer_than_the_lease_is_noticed_before_others_get_in",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a backend does not promise, and put off what is long."""
    left_out = []
    for item in items:
        facts = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        backend, check = facts.get("backend", ""), facts.get("check")
        if _is_long(backend, check):
            item.add_marker(pytest.mark.long)
        if check and any(check.name in names for names in CANNOT.get(backend, {}).values()):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_long(backend: str, check: Check | None) -> bool:
    if backend == "zookeeper-3":
        return check is None or check.name not in OF_AN_ENSEMBLE
    return backend in LONG and check is not None and (check.name not in SHORT or (backend, check.name) in SLOW)


@pytest.fixture(params=WORLDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend of ours."""
    return str(request.param)


@pytest.fixture
def world(request: pytest.FixtureRequest, backend: str) -> World:
    """A fresh world of that backend."""
    return WORLDS[backend](request)
