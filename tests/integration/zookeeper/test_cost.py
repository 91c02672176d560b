"""What it costs the server: nothing while idle, nothing per section inside a client, one connection."""

from __future__ import annotations

import asyncio

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.zookeeper.support import client, in_line, url_of


async def test_idle_waiters_cost_a_sync_per_third_of_a_session(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """And pings; whoever waits on whatever, over one connection."""
    session, seconds = 4.0, 3.0
    async with client(url_of(proxy.port), session=session) as waiter, client(server.url, session=30.0) as holder:
        both = holder.multi(holder.lock(key), holder.lock(f"{key}-2"))
        async with both:
            tasks = [asyncio.create_task(waiter.lock(key).acquire()) for _ in range(100)]
            tasks += [asyncio.create_task(waiter.lock(f"{key}-2", fair=True).acquire()) for _ in range(20)]
            await in_line(holder, f"{key}-2", 21)
            await asyncio.sleep(0.3)
            before = proxy.counts.requests
            await asyncio.sleep(seconds)
            syncs = seconds / (session / 3) + 1
            assert proxy.counts.requests - before <= 2 * syncs
            assert proxy.counts.connections == 1
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def test_a_hundred_tasks_cost_a_tenth_of_a_call_per_section(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """Of one client, alone with the key."""

    async def visit() -> None:
        for _ in range(20):
            async with mine.lock(key):
                await asyncio.sleep(0)

    async with client(url_of(proxy.port), session=30.0) as mine:
        before = proxy.counts.requests
        await asyncio.gather(*(visit() for _ in range(100)))
        assert proxy.counts.requests - before <= 0.1 * 2000
