"""Redis, ZooKeeper, MariaDB and memory at once, and a proxy in front of each real one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer, RedisServer, Server, ZooKeeperServer, require
from tests.integration.multi.backends import Clients, opened

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Server]]:
    """The real ones, by scheme."""
    kinds: dict[str, type[Server]] = {"redis": RedisServer, "zk": ZooKeeperServer, "mysql": MariaDBServer}
    for kind in kinds.values():
        require(kind)
    with ExitStack() as stack:
        yield {scheme: stack.enter_context(kind()) for scheme, kind in kinds.items()}


@pytest.fixture
def direct(servers: dict[str, Server]) -> dict[str, str]:
    """How those reach the servers whom no fault concerns."""
    return {"memory": f"memory://multi-{next(_numbers)}"} | {name: server.url for name, server in servers.items()}


@pytest.fixture
def proxies(servers: dict[str, Server]) -> Iterator[dict[str, FaultProxy]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(FaultProxy(server.port)) for name, server in servers.items()}


@pytest.fixture
async def others(direct: dict[str, str]) -> AsyncIterator[Clients]:
    async with opened(direct, "others") as clients:
        yield clients


@pytest.fixture
async def mine(direct: dict[str, str], proxies: dict[str, FaultProxy], others: Clients) -> AsyncIterator[Clients]:
    """Clients that the proxies can cut off; the memory server lives as long as the others."""
    far = {name: direct[name].replace(str(proxy.target), str(proxy.port)) for name, proxy in proxies.items()}
    async with opened(direct | far, "mine") as clients:
        yield clients


@pytest.fixture
def keys(request: pytest.FixtureRequest, direct: dict[str, str]) -> dict[str, str]:
    """One fresh key, the same on every backend: only the backend orders the members."""
    return dict.fromkeys(direct, f"{request.function.__name__}-{next(_numbers)}")
