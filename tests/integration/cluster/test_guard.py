"""The guard for data in a cluster: keys on every master, and one that moves to another."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import RedisCluster as Data
from redis.crc import key_slot
from redis.exceptions import RedisClusterException

import aiodlock
from aiodlock.errors import LockLostError
from aiodlock.guards.redis import RedisGuard
from aiodlock.testing.servers import RedisCluster
from tests.integration.cluster.conftest import elsewhere


@pytest.fixture
async def data(cluster: RedisCluster) -> AsyncIterator[Data]:
    async with Data(host="127.0.0.1", port=cluster.nodes[0].port) as data:
        yield data


async def test_keys_on_every_master_are_guarded(cluster: RedisCluster, data: Data) -> None:
    """The first write to each of them finds a server without the script."""
    for node in cluster.nodes:
        assert node.ask("SCRIPT", "FLUSH") == b"OK"
    guard, masters = RedisGuard(data), await asyncio.to_thread(cluster.masters)
    for master in masters:
        numbers = (f"sku-{number}" for number in itertools.count())
        key = next(key for key in numbers if cluster.owner(key_slot(key.encode())) is master)
        assert await guard.newest(key) == 0
        assert await guard.write(key, "SET", "new", fence=2) == b"OK"
        with pytest.raises(LockLostError, match="fence 1 came after 2"):
            await guard.write(key, "SET", "old", fence=1)
        assert (await data.get(key), await guard.newest(key)) == (b"new", 2)


async def test_a_key_that_moves_takes_its_fence_along(cluster: RedisCluster, data: Data) -> None:
    """With real locks: whoever slept through the lease is refused by the other server."""
    guard, slot = RedisGuard(data), key_slot(b"moved")
    target = await elsewhere(cluster, slot)
    async with aiodlock.connect(cluster.url) as sleepy, aiodlock.connect(cluster.url) as quick:
        old = await sleepy.lock("moved", ttl=0.1, renew=False).acquire()
        async with quick.lock("moved") as new:
            await guard.write("moved", "SET", "quick", fence=new.fence)
            await asyncio.to_thread(cluster.move, slot, target)
            await guard.write("moved", "APPEND", "er", fence=new.fence)
        with pytest.raises(LockLostError):
            await guard.write("moved", "SET", "sleepy", fence=old.fence)
    assert await data.get("moved") == b"quicker"


async def test_a_fence_in_another_slot_is_found(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(RedisGuard, "fence_key", staticmethod(lambda key: f"fence:{key}"))
    with pytest.raises(RedisClusterException, match="same key slot"):
        await RedisGuard(data).write("k", "SET", "x", fence=1)
