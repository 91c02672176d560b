"""One server for all tests of this folder, and clients that remember what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiodlock._core.line import Call
from aiodlock.backends.mysql import MySQLBackend
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.testing.servers import MariaDBServer, require
from tests.integration.told import Told, kept_open


class Admin:
    """A connection of the tests themselves."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of the first result."""
        return list(next(iter(await self._link.ask(statement)), ()))

    async def connections(self) -> list[tuple[Any, ...]]:
        """Return id, command, state and statement of every connection of our clients."""
        own = (await self.ask("SELECT CONNECTION_ID()"))[0][0]
        rows = await self.ask("SHOW FULL PROCESSLIST")
        return [
            (row[0], row[4], row[6], row[7]) for row in rows if row[0] != own and row[1] != "system user" and row[3]
        ]


class Client(Told):
    """A client of the server, with the tests' own connection beside it."""

    backend: MySQLBackend

    def __init__(self, backend: MySQLBackend, admin: Admin) -> None:
        super().__init__()
        self.backend = backend
        self.admin = admin

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


@pytest.fixture
async def admin(server: MariaDBServer) -> AsyncIterator[Admin]:
    link = await Link.open(Address.from_url(server.url))
    yield Admin(link)
    await link.aclose()


@pytest.fixture
async def connect(server: MariaDBServer, admin: Admin) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    async with AsyncExitStack() as stack:

        async def connect(url: str = server.url, **settings: Any) -> Client:
            return await stack.enter_async_context(kept_open(Client(MySQLBackend.from_url(url, **settings), admin)))

        yield connect
