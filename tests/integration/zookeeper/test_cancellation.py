"""A cancel, or a close, at any moment of an acquire on a real server: no node is left, and no task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiodlock import LockClient
from aiodlock._core.place import Place
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.steps import sweep
from tests.integration.zookeeper.support import client, until

MOMENTS = [moment / 4000 for moment in range(0, 24, 2)]  # an acquire takes some milliseconds

SYNCHRONIZERS = {
    "lock": lambda locks, key: locks.lock(key),
    "fair": lambda locks, key: locks.lock(key, fair=True),
    "write": lambda locks, key: locks.rwlock(key).write(),
    "permits": lambda locks, key: locks.semaphore(key, permits=1),
}


@pytest.fixture(params=["one", pytest.param("three", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest) -> str:
    """Where to connect to: one server, or an ensemble."""
    servers = request.getfixturevalue("server" if request.param == "one" else "ensemble")
    return str(servers.url)


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
async def test_a_cancel_at_any_step_leaves_nothing(url: str, key: str, taken: bool) -> None:
    """On the server and in the client."""
    async with client(url, session=30.0) as mine, client(url, session=30.0) as other:
        cancelled, left = await sweep(mine, other, key, taken=taken)
    assert cancelled > 5
    assert left == []


async def test_that_finds_a_client_that_never_leaves(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled waiter's node stays in line."""
    async with client(server.url, session=30.0) as mine, client(server.url, session=30.0) as other:
        monkeypatch.setattr(Place, "_send_leave", lambda self: self._left(None))
        with pytest.raises(TimeoutError):
            await sweep(mine, other, key, taken=False)
        monkeypatch.undo()


async def test_that_finds_a_node_that_is_left(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If leaving forgets a node that is just being made."""
    leave = ZooKeeperBackend.leave

    async def leave_what_is_known(self: ZooKeeperBackend, ticket: Any, *, bury: bool = False) -> None:
        stand = self._stands.get(ticket.id)
        if stand is None or stand.node.name:
            await leave(self, ticket, bury=bury)

    async with client(server.url, session=30.0) as mine, client(server.url, session=30.0) as other:
        monkeypatch.setattr(ZooKeeperBackend, "leave", leave_what_is_known)
        with pytest.raises(TimeoutError):
            await sweep(mine, other, key, taken=False)
        monkeypatch.undo()


async def _sweep(url: str, key: str, kind: str) -> None:
    """Cancel an acquire of a free one and of a taken one at every moment; the next one gets in at once."""
    make: Any = SYNCHRONIZERS[kind]
    async with client(url, session=30.0) as mine, client(url, session=30.0) as other:
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
async def test_a_cancelled_acquire_leaves_no_node(url: str, key: str, kind: str) -> None:
    """Whenever it is cancelled."""
    await _sweep(url, key, kind)


async def test_closing_at_any_moment_leaves_nothing(url: str, key: str) -> None:
    """Also in the middle of a verb."""
    async with client(url, session=30.0) as other:
        for moment in MOMENTS:
            async with client(url, session=30.0) as mine:
                tasks = [asyncio.create_task(mine.lock(key, fair=True).acquire()) for _ in range(3)]
                await asyncio.sleep(moment)
            await asyncio.wait(tasks)
            for task in tasks:
                assert task.exception() or task.result().lost
            await until(lambda: _is_empty(other, key), within=2.0)
        names = [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]
        assert len(names) == 1, names  # the other client's connection
