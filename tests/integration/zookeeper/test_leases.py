"""What a ttl means where the lease is the session."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.zookeeper.support import LATE, SESSION, client, in_line


async def test_a_fixed_lease_longer_than_the_session_is_kept_and_ends(server: ZooKeeperServer, key: str) -> None:
    """The client keeps its session alive for it, and lets go in time; the next one enters then, not before."""
    now = asyncio.get_running_loop().time
    async with client(server.url) as mine, client(server.url) as other:
        began = now()
        hold = await mine.lock(key, ttl=2 * SESSION, renew=False).acquire()
        assert hold.remaining < SESSION
        entering = asyncio.create_task(other.lock(key).acquire())
        await in_line(other, key, 2)
        await asyncio.sleep(1.5 * SESSION)
        hold.check()
        async with asyncio.timeout(SESSION):
            await hold.wait_lost()
            next_ = await entering
        assert 1.9 * SESSION <= now() - began <= 2 * SESSION + LATE
        await next_.release()


@pytest.mark.long
async def test_a_lease_is_extended_beyond_the_session(server: ZooKeeperServer, key: str) -> None:
    """A fixed one, once more for as long."""
    async with client(server.url) as mine:
        hold = await mine.lock(key, ttl=0.5 * SESSION, renew=False).acquire()
        await hold.extend(1.5 * SESSION)
        await asyncio.sleep(1.2 * SESSION)
        hold.check()
        async with asyncio.timeout(SESSION):
            await hold.wait_lost()
        await in_line(mine, key, 0)


async def test_a_short_ttl_is_kept_by_its_client(server: ZooKeeperServer, key: str) -> None:
    """Others need not wait for the end of its session."""
    now = asyncio.get_running_loop().time
    async with client(server.url, session=30.0) as mine, client(server.url) as other:
        hold = await mine.lock(key, ttl=0.5, renew=False).acquire()
        began = now()
        async with other.lock(key, wait=5.0):
            assert now() - began <= 0.5 + LATE
            assert hold.lost
