"""One cluster for all tests of this folder that leave its servers alone, and clients that remember their calls."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.crc import key_slot

from aiodlock._core.line import LineId, Ticket, TicketId
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.testing.servers import ClusterNode, RedisCluster, RedisServer, require
from tests.integration.redis.conftest import Client

_ids = itertools.count(1)


class Member(Client):
    """A client of a cluster."""

    backend: ClusterBackend

    def slot(self, line: LineId) -> int:
        return key_slot(self.key(line))

    def channel(self, line: LineId) -> str:
        return self.backend._route.channel(self.key(line)).decode()

    async def looks_again(self) -> None:
        """Return when this client was told that calls may have been missed."""
        await self.reconnected.wait()
        self.reconnected.clear()


@pytest.fixture(scope="session")
def cluster() -> Iterator[RedisCluster]:
    require(RedisServer)
    with RedisCluster() as running:
        yield running


@pytest.fixture
async def connect(cluster: RedisCluster) -> AsyncIterator[Callable[..., Awaitable[Member]]]:
    async with AsyncExitStack() as stack:

        async def connect(url: str = cluster.url, **settings: Any) -> Member:
            member = Member(ClusterBackend.from_url(url, **settings))
            await member.backend.open(member.on_call)
            stack.push_async_callback(member.backend.aclose)
            return member

        yield connect


@pytest.fixture
async def client(connect: Callable[..., Awaitable[Member]]) -> Member:
    return await connect()


@pytest.fixture
async def other(connect: Callable[..., Awaitable[Member]]) -> Member:
    return await connect()


@pytest.fixture
def line(request: pytest.FixtureRequest) -> LineId:
    return LineId("lock", f"{request.function.__name__}-{next(_ids)}")


@pytest.fixture
def ticket(line: LineId) -> Callable[..., Ticket]:
    """Make tickets of this test's line."""

    def make(**facts: Any) -> Ticket:
        return Ticket(facts.pop("line", line), TicketId(f"t{next(_ids)}"), **facts)

    return make


async def elsewhere(cluster: RedisCluster, slot: int) -> ClusterNode:
    """Return a master that does not own *slot*."""
    owner = await asyncio.to_thread(cluster.owner, slot)
    return next(node for node in await asyncio.to_thread(cluster.masters) if node is not owner)
