"""A cancel, or a close, at any moment of an acquire on a real server: no node is left, and no task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiodlock import LockClient
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.zookeeper.support import client, until

MOMENTS = [moment / 4000 for moment in range(0, 24, 2)]  # an acquire takes some milliseconds

SYNCHRONIZERS = {
    "lock": lambda locks, key: locks.lock(key),
    "fair": lambda locks, key: locks.lock(key, fair=True),
    "write": lambda locks, key: locks.rwlock(key).write(),
    "permits": lambda locks, key: locks.semaphore(key, permits=1),
}


async def _sweep(server: ZooKeeperServer, key: str, kind: str) -> None:
    """Cancel an acquire of a free one and of a taken one at every moment; the next one gets in at once."""
    make: Any = SYNCHRONIZERS[kind]
    async with client(server.url, session=30.0) as mine, client(server.url, session=30.0) as other:
        for moment in MOMENTS:
            for taken in (False, True):
                blocker = await make(other, key).acquire() if taken else None
                task = asyncio.create_task(make(mine, key).acquire())
                await asyncio.sleep(moment)
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    await task.result().release()
                if blocker is not None:
                    await blocker.release()
                async with asyncio.timeout(2.0):
                    await (await make(other, key).acquire()).release()
        await until(lambda: _is_empty(other, key), within=2.0)


async def _is_empty(locks: LockClient, key: str) -> bool:
    return not [row async for row in locks.inspect(key)]


@pytest.mark.parametrize("kind", SYNCHRONIZERS)
async def test_a_cancelled_acquire_leaves_no_node(server: ZooKeeperServer, key: str, kind: str) -> None:
    """Whenever it is cancelled."""
    await _sweep(server, key, kind)


async def test_that_finds_a_node_that_is_left(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If leaving forgets a node that is just being made."""
    leave = ZooKeeperBackend.leave

    async def leave_what_is_known(self: ZooKeeperBackend, ticket: Any, *, bury: bool = False) -> None:
        stand = self._stands.get(ticket.id)
        if stand is None or stand.node.name:
            await leave(self, ticket, bury=bury)

    monkeypatch.setattr(ZooKeeperBackend, "leave", leave_what_is_known)
    with pytest.raises(TimeoutError):
        await _sweep(server, key, "lock")


async def test_closing_at_any_moment_leaves_nothing(server: ZooKeeperServer, key: str) -> None:
    """Also in the middle of a verb."""
    async with client(server.url, session=30.0) as other:
        for moment in MOMENTS:
            async with client(server.url, session=30.0) as mine:
                tasks = [asyncio.create_task(mine.lock(key, fair=True).acquire()) for _ in range(3)]
                await asyncio.sleep(moment)
            await asyncio.wait(tasks)
            for task in tasks:
                assert task.exception() or task.result().lost
            await until(lambda: _is_empty(other, key), within=2.0)
        names = [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]
        assert len(names) == 1, names  # the other client's connection
