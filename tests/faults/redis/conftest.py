"""Servers and a proxy for the fault tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer, require


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    """A server that many tests share: they cut its clients off, and leave the server itself alone."""
    require(RedisServer)
    with RedisServer() as running:
        yield running


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
def looking_is_far_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have who waits look by itself after twenty seconds only, and nothing under way until then."""
    monkeypatch.setattr("aiodlock._core.line.WAITING_LIFE", 60.0)
