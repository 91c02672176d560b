"""min_replicas in a cluster: what too few replicas of a line's master have does not count, wherever its slot goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

import aiodlock
from aiodlock import AcquireTimeoutError, BackendUnavailableError
from aiodlock.backends.redis import confirmed
from aiodlock.backends.redis.checks import Replicas
from aiodlock.errors import ConfigurationError
from aiodlock.testing.servers import ClusterNode, RedisCluster
from aiodlock.testing.servers.resp import info
from tests.faults.cluster.servers import cut_off_replicas, slot_of
from tests.faults.visits import until_in_line
from tests.integration.cluster.conftest import elsewhere
from tests.integration.told import meet_when_closing


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"confirmed-{request.node.name}"


@asynccontextmanager
async def alone(cluster: RedisCluster, key: str) -> AsyncIterator[None]:
    """Keep the replica of the key's master away."""
    master = await asyncio.to_thread(cluster.owner, slot_of(key))
    await asyncio.to_thread(cut_off_replicas, master)
    try:
        yield
    finally:
        await asyncio.to_thread(master.ask, "ACL", "SETUSER", "default", "+psync", "+sync", "+replconf")
        # One that came back half-way was not heard to the end.
        await asyncio.to_thread(master.ask, "CLIENT", "KILL", "TYPE", "replica")
        while not await asyncio.to_thread(_is_followed, master):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.to_thread(cluster.await_well)


def _is_followed(master: ClusterNode) -> bool:
    replicas = Replicas.of(info(master.port, "replication").decode())
    return replicas.online == 1 and not replicas.behind


async def test_with_its_replica_everything_counts(cluster: RedisCluster, key: str) -> None:
    """One after the other, in two clients; who waits is woken by a call."""
    async with (
        aiodlock.connect(cluster.url, min_replicas=1) as mine,
        aiodlock.connect(cluster.url, min_replicas=1) as other,
    ):
        hold = await mine.lock(key).acquire()
        waiting = asyncio.create_task(other.lock(key).acquire())
        await until_in_line(mine, key, 2)
        await hold.release()
        async with asyncio.timeout(5), await waiting as second:
            assert second.fence > hold.fence
            await second.extend(60)
        async with asyncio.timeout(5), mine.rwlock(key).write() as write:
            await write.downgrade()
        assert [row async for row in mine.inspect(key)] == []


async def test_without_its_replica_nobody_gets_in_and_nothing_stands(cluster: RedisCluster, key: str) -> None:
    """In time, with a typed error; who asks for no replica is let in all the same, and so are all when it is back."""
    async with (
        aiodlock.connect(cluster.url, min_replicas=1, patience=1.0) as mine,
        aiodlock.connect(cluster.url) as other,
    ):
        async with alone(cluster, key):
            with pytest.raises(AcquireTimeoutError):
                await mine.lock(key).acquire(0.5)
            with pytest.raises(BackendUnavailableError):
                await mine.lock(key, ttl=1).acquire()
            async with other.lock(key, wait=5):
                pass
        async with mine.lock(key, wait=20):
            pass


async def lasts_alone(cluster: RedisCluster, key: str) -> bool:
    """Hold it while the replica is away for longer than the lease; tell whether it is believed to the end."""
    async with aiodlock.connect(cluster.url, min_replicas=1, patience=1.0) as locks:
        hold = await locks.lock(key, ttl=2.0).acquire()
        async with alone(cluster, key):
            with suppress(TimeoutError):
                async with asyncio.timeout(4.0):
                    await hold.wait_lost()
        held = not hold.lost
        if held:
            await hold.release()
    return held


async def test_a_renewal_without_replica_moves_no_deadline(cluster: RedisCluster, key: str) -> None:
    """The hold is lost at the end of the lease that was confirmed."""
    assert not await lasts_alone(cluster, key)


async def test_a_client_that_believes_unconfirmed_renewals_is_found(
    cluster: RedisCluster, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: the server renews, so the hold goes on."""
    monkeypatch.setattr(confirmed, "doubted", lambda answer: answer)
    assert await lasts_alone(cluster, key)


@pytest.mark.parametrize("is_between", [True, False], ids=["between", "moved"])
async def test_a_slot_that_moves_is_followed_and_confirmed_there(
    cluster: RedisCluster, key: str, is_between: bool
) -> None:
    """By `ASK` and by `MOVED`: joins and renewals count when a replica of the new master has them."""
    slot = slot_of(key)
    target = await elsewhere(cluster, slot)
    async with aiodlock.connect(cluster.url, min_replicas=1) as locks:
        await locks.ping()
        moving = cluster.moving(slot, target)
        await asyncio.to_thread(moving.__enter__)
        if not is_between:
            await asyncio.to_thread(moving.__exit__, None, None, None)
        before = await asyncio.to_thread(waits_on, target)
        async with asyncio.timeout(10), locks.lock(key, ttl=20) as hold:
            await hold.extend(30)
            if is_between:
                await asyncio.to_thread(moving.__exit__, None, None, None)
            await hold.extend(40)
            hold.check()
        assert await asyncio.to_thread(waits_on, target) > before
        assert [row async for row in locks.inspect(key)] == []


def waits_on(node: ClusterNode) -> int:
    """Return how often the server was asked to wait for its replicas."""
    told = info(node.port, "commandstats")
    return int(told.partition(b"cmdstat_wait:calls=")[2].partition(b",")[0] or 0)


async def test_connections_are_closed_together(
    cluster: RedisCluster, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two to the master of the line; each may wait a while for a server that is frozen."""
    async with aiodlock.connect(cluster.url, min_replicas=1) as locks:
        async with locks.lock(key):
            pass
        meet_when_closing(monkeypatch, 2)


def test_a_number_that_makes_no_sense_is_refused_before_any_connection() -> None:
    for wrong in (-1, "2", True):
        with pytest.raises(ConfigurationError, match="min_replicas"):
            aiodlock.connect("redis+cluster://localhost", min_replicas=wrong)
