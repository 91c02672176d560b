"""One server for all tests of this folder, and clients that remember what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import asyncmy
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

    async def amount(self) -> int:
        """Return how much of the first row of stock there is."""
        return int((await self.ask("SELECT amount FROM stock WHERE id = 1"))[0][0])

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
        asyncio.run(MySQLBackend.from_url(running.url).prepare())  # tests look into the tables before a client comes
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


@pytest.fixture
async def pool(server: MariaDBServer, admin: Admin) -> AsyncIterator[Any]:
    """Connections of the application, to a table of stock with one row."""
    await admin.ask("DROP TABLE IF EXISTS stock")
    await admin.ask(
        "CREATE TABLE stock (id INT PRIMARY KEY, name VARCHAR(20), amount INT, version INT NOT NULL DEFAULT 0, "
        "fence BIGINT NOT NULL DEFAULT 0) ENGINE = InnoDB"
    )
    await admin.ask("INSERT INTO stock (id, name, amount) VALUES (1, 'pen', 100), (2, 'ink', 100)")
    pool = await asyncmy.create_pool(
        host="127.0.0.1", port=server.port, user="root", database=server.database, autocommit=True, minsize=1, maxsize=8
    )
    yield pool
    pool.close()
    await pool.wait_closed()
