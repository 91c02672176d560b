"""One cluster for all tests of this folder that leave its servers alone, and clients that remember their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.crc import key_slot

from aiodlock._core.line import LineId
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.testing.servers import ClusterNode, RedisCluster, RedisServer, require
from tests.integration.redis.conftest import Client
from tests.integration.told import kept_open


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
    with RedisCluster(silence=10) as running:  # no failover because the machine is busy
        yield running


@pytest.fixture
async def connect(cluster: RedisCluster) -> AsyncIterator[Callable[..., Awaitable[Member]]]:
    async with AsyncExitStack() as stack:

        async def connect(url: str = cluster.url, **settings: Any) -> Member:
            return await stack.enter_async_context(kept_open(Member(ClusterBackend.from_url(url, **settings))))

        yield connect


async def elsewhere(cluster: RedisCluster, slot: int) -> ClusterNode:
    """Return a master that does not own *slot*."""
    owner = await asyncio.to_thread(cluster.owner, slot)
    return next(node for node in await asyncio.to_thread(cluster.masters) if node is not owner)
