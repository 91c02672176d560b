"""One server for all tests of this folder, and clients that remember what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock._core.line import Answer, Call, LineId, Ticket
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.scripts import command
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisReplica, RedisServer, require
from tests.integration.redis.scripts import load_scripts
from tests.integration.told import Told, kept_open


class Client(Told):
    """A client of the server."""

    backend: RedisBackend

    def __init__(self, backend: RedisBackend) -> None:
        super().__init__()
        self.backend = backend

    async def told(self) -> list[Call]:
        """Return what this client was told since it was last asked, whoever caused it."""
        await self.backend.ping()  # on the same connection, behind every call before it
        calls, self.calls = self.calls, []
        return calls

    def do(self, *arguments: bytes | str | int) -> Awaitable[Any]:
        return self.backend._node.send(command(*arguments), lambda reply, via: reply).future

    async def answer(self, ticket: Ticket) -> Answer | None:
        return (await self.backend.renew([ticket]))[0]

    async def bury(self, ticket: Ticket, *, life: float) -> None:
        """Leave, and have the id remembered for so many seconds, which may be less than anybody asks for."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("aiodlock.backends.redis.backend.tombstone_life", lambda ttl: life)
            await self.backend.leave(ticket, bury=True)

    async def until_over(self, *tickets: Ticket) -> None:
        """Return when the lives of these tickets have ended by the server's clock; inspecting sweeps nothing."""
        gone = {ticket.id for ticket in tickets}
        line = tickets[0].line
        while True:
            rows = await self.backend.inspect(line.kind, line.key)
            if not (lives := [row.remaining for row in rows if row.id in gone]):
                return
            await asyncio.sleep(max(lives))

    def key(self, line: LineId) -> bytes:
        return self.backend._keys.name(line).key


async def until(is_so: Callable[[], bool], *, within: float = 20.0) -> None:
    """Return as soon as *is_so* says yes."""
    async with asyncio.timeout(within):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.005)


def opened(url: str, **settings: Any) -> AbstractAsyncContextManager[Client]:
    return kept_open(Client(RedisBackend.from_url(url, **settings)))


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture
def scripts_are_loaded(server: RedisServer) -> None:
    """Whatever a test before this one did to the server, or none did."""
    load_scripts(server)


@pytest.fixture
async def connect(server: RedisServer) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    async with AsyncExitStack() as stack:

        async def connect(url: str = server.url, **settings: Any) -> Client:
            return await stack.enter_async_context(opened(url, **settings))

        yield connect


# --- a master and its replica -------------------------------------------------------------------------------


class Pair:
    """A master, its replica, and the connection between them, which can be cut."""

    def __init__(self, master: RedisServer, copying: FaultProxy, replica: RedisReplica) -> None:
        self.master, self.copying, self.replica = master, copying, replica

    @property
    def url(self) -> str:
        return self.master.url

    def cut(self) -> None:
        """Let the replica hear nothing more of its master."""
        self.copying.refuse()
        self.copying.reset()


@pytest.fixture
def pair() -> Iterator[Pair]:
    require(RedisServer)
    with (
        RedisServer() as master,
        FaultProxy(master.port) as copying,
        RedisReplica(of=copying.port) as replica,
    ):
        yield Pair(master, copying, replica)


@asynccontextmanager
async def client_of(url: str, name: str, **settings: object) -> AsyncIterator[LockClient]:
    async with aiodlock.connect(url, name=name, patience=1.5, **settings) as locks:
        yield locks
