"""What the folders of real servers share: each says what its `server` is and how to `connect` to it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from aiodlock._core.line import LineId, Ticket, TicketId
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer, RedisServer
from tests.integration.told import Told

_ids = itertools.count(1)


@pytest.fixture
async def client(connect: Callable[..., Awaitable[Told]]) -> Told:
    return await connect()


@pytest.fixture
async def other(connect: Callable[..., Awaitable[Told]]) -> Told:
    return await connect()


@pytest.fixture
def proxy(server: RedisServer | MariaDBServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def far(server: RedisServer | MariaDBServer, proxy: FaultProxy) -> str:
    """The server's URL through the proxy."""
    return server.url.replace(str(server.port), str(proxy.port))


@pytest.fixture
def line(request: pytest.FixtureRequest) -> LineId:
    return LineId("lock", f"{request.function.__name__}-{next(_ids)}")


@pytest.fixture
def ticket(line: LineId) -> Callable[..., Ticket]:
    """Make tickets of this test's line; the owner is named after the id."""

    def make(name: str = "", **facts: Any) -> Ticket:
        name = name or f"t{next(_ids)}"
        return Ticket.of(facts.pop("line", line), TicketId(name), **{"owner": f"owner of {name}", **facts})

    return make
