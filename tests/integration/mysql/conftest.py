"""One server for all tests of this folder, clients that remember what they were told, a fresh key per test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from aiodlock._core.line import Call, LineId, Reconnected, Ticket, TicketId
from aiodlock.backends.mysql import MySQLBackend
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer, require

_ids = itertools.count(1)


class Admin:
    """A connection of the tests themselves."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of the first result."""
        return list(next(iter(await self._link.ask(statement)), ()))

    async def connections(self, *, but: int = 1) -> list[tuple[Any, ...]]:
        """Return id, command, state and statement of every connection of our clients."""
        own = (await self.ask("SELECT CONNECTION_ID()"))[0][0]
        rows = await self.ask("SHOW FULL PROCESSLIST")
        return [
            (row[0], row[4], row[6], row[7]) for row in rows if row[0] != own and row[1] != "system user" and row[3]
        ]


class Client:
    """A backend, and the calls it got."""

    def __init__(self, backend: MySQLBackend, admin: Admin) -> None:
        self.backend = backend
        self.admin = admin
        self.calls: list[Call] = []
        self.reconnected = asyncio.Event()

    def on_call(self, call: Call) -> None:
        self.calls.append(call)
        if isinstance(call, Reconnected):
            self.reconnected.set()

    async def told(self) -> list[Call]:
        """Return what this client was told since it was last asked: mail is deleted after it was handed over."""
        unread = f"SELECT COUNT(*) FROM aiodlock_mail WHERE client = '{self.backend._client.decode()}'"
        while (await self.admin.ask(unread))[0][0]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDBServer]:
    require(MariaDBServer)
    with MariaDBServer() as running:
        yield running


@asynccontextmanager
async def opened(url: str, admin: Admin, **settings: Any) -> AsyncIterator[Client]:
    client = Client(MySQLBackend.from_url(url, **settings), admin)
    await client.backend.open(client.on_call)
    try:
        yield client
    finally:
        await client.backend.aclose()


@pytest.fixture
async def admin(server: MariaDBServer) -> AsyncIterator[Admin]:
    link = await Link.open(Address.from_url(server.url))
    yield Admin(link)
    await link.aclose()


@pytest.fixture
async def connect(server: MariaDBServer, admin: Admin) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    async with AsyncExitStack() as stack:

        async def connect(url: str = server.url, **settings: Any) -> Client:
            return await stack.enter_async_context(opened(url, admin, **settings))

        yield connect


@pytest.fixture
async def client(connect: Callable[..., Awaitable[Client]]) -> Client:
    return await connect()


@pytest.fixture
async def other(connect: Callable[..., Awaitable[Client]]) -> Client:
    return await connect()


@pytest.fixture
def proxy(server: MariaDBServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def far(server: MariaDBServer, proxy: FaultProxy) -> str:
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
        return Ticket(facts.pop("line", line), TicketId(name), **{"owner": f"owner of {name}", **facts})

    return make
