"""Servers for the worlds that need one, and the worlds themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiodlock.testing.conformance import MemoryWorld, World
from aiodlock.testing.servers import MariaDBServer, RedisServer, require
from tests.conformance.worlds import MySQLWorld, RedisWorld


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    require(MariaDBServer)
    with MariaDBServer() as running:
        yield running


# A further backend is one more entry: what to do with pytest's request to get a world of it.
WORLDS: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "memory": lambda request: MemoryWorld(),
    "redis": lambda request: RedisWorld(request.getfixturevalue("redis_server")),
    "mysql": lambda request: MySQLWorld(request.getfixturevalue("mariadb_server")),
}


# In real time the suite takes minutes. For these backends a short run has these modules; the other checks are long.
SHORT = {"mysql": {"verbs", "lock", "order"}}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        case = getattr(item, "callspec", None)
        chosen = SHORT.get(case.params.get("backend", "")) if case else None
        if chosen and (check := case.params.get("check")) and check.prove.__module__.rpartition(".")[2] not in chosen:
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=WORLDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend of ours."""
    return str(request.param)


@pytest.fixture
def world(request: pytest.FixtureRequest, backend: str) -> World:
    """A fresh world of that backend."""
    return WORLDS[backend](request)
