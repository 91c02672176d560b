"""Servers for the worlds that need one, and the worlds themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiodlock.testing.conformance import MemoryWorld, World
from aiodlock.testing.servers import RedisServer, ZooKeeperEnsemble, ZooKeeperServer, require
from tests.conformance.worlds import RedisWorld, ZooKeeperWorld


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[ZooKeeperServer]:
    require(ZooKeeperServer)
    with ZooKeeperServer() as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper_ensemble() -> Iterator[ZooKeeperEnsemble]:
    require(ZooKeeperServer)
    with ZooKeeperEnsemble() as running:
        yield running


# A further backend is one more entry: what to do with pytest's request to get a world of it.
WORLDS: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "memory": lambda request: MemoryWorld(),
    "redis": lambda request: RedisWorld(request.getfixturevalue("redis_server")),
    "zookeeper": lambda request: ZooKeeperWorld([request.getfixturevalue("zookeeper_server")]),
    "zookeeper-3": lambda request: ZooKeeperWorld(request.getfixturevalue("zookeeper_ensemble").nodes),
}
LONG = {"zookeeper-3"}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in WORLDS])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend of ours."""
    return str(request.param)


@pytest.fixture
def world(request: pytest.FixtureRequest, backend: str) -> World:
    """A fresh world of that backend."""
    return WORLDS[backend](request)
