"""What a ttl means where the lease is the session."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.zookeeper.support import LATE, client, in_line

SESSION = 3.0


async def test_a_fixed_lease_longer_than_the_session_is_kept_and_ends(server: ZooKeeperServer, key: str) -> None:
    """The client keeps its session alive for it, and lets go in time; the next one enters then, not before."""
    now = asyncio.get_running_loop().time
    async with client(server.url, session=SESSION) as mine, client(server.url) as other:
        began = now()
        hold = await mine.lock(key, ttl=2 * SESSION, renew=False).acquire()
        assert hold.remaining < SESSION
        entering = asyncio.create_task(other.lock(key).acquire())
        await in_line(other, key, 2)
        await asyncio.sleep(1.5 * SESSION)
        hold.check()
        async with asyncio.timeout(SESSION + LATE):
            await hold.wait_lost()
            next_ = await entering
        assert now() - began >= 1.9 * SESSION
        await next_.release()


@pytest.mark.long
async def test_a_lease_is_extended_beyond_the_session(server: ZooKeeperServer, key: str) -> None:
    """A fixed one, once more for as long."""
    async with client(server.url, session=SESSION) as mine:
        hold = await mine.lock(key, ttl=0.5 * SESSION, renew=False).acquire()
        await hold.extend(1.5 * SESSION)
        await asyncio.sleep(1.2 * SESSION)
        hold.check()
        async with asyncio.timeout(SESSION + LATE):
            await hold.wait_lost()
        await in_line(mine, key, 0)


async def test_a_short_ttl_is_kept_by_its_client(server: ZooKeeperServer, key: str) -> None:
    """Others need not wait for the end of its session."""
    async with client(server.url, session=30.0) as mine, client(server.url) as other:
        hold = await mine.lock(key, ttl=1.0, renew=False).acquire()
        async with other.lock(key, wait=1.0 + LATE):
            assert hold.lost
