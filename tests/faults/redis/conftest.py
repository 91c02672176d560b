"""A server and a proxy for the fault tests; what is left on the server is looked for after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer, require


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """A server that many tests share: they cut its clients off, and leave it alone itself."""
    return shared_server


@pytest.fixture
def own_server() -> Iterator[Callable[..., RedisServer]]:
    """Start servers that a test may kill, freeze and fill."""
    require(RedisServer)
    servers: list[RedisServer] = []

    def start(**settings: object) -> RedisServer:
        servers.append(RedisServer(**settings))  # type: ignore[arg-type]
        return servers[-1].start()

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def proxies(server: RedisServer) -> Iterator[list[FaultProxy]]:
    """Three of them, each for a client of its own."""
    with FaultProxy(server.port) as one, FaultProxy(server.port) as two, FaultProxy(server.port) as three:
        yield [one, two, three]
