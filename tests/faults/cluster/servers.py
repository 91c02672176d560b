"""What the fault tests do to a cluster, and what may not be left there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import cast

from redis.crc import key_slot

import aiodlock
from aiodlock._core.line import LineId
from aiodlock.backends.redis.keys import Keys
from aiodlock.testing.servers import ClusterNode, RedisCluster

__all__ = ["cut_off_replicas", "fail_over", "hand_over", "left_in", "slot_of", "stop_writes"]


def slot_of(key: str) -> int:
    """Return the slot of the lock at *key*."""
    return key_slot(Keys().name(LineId("lock", key)).key)


def stop_writes(master: ClusterNode) -> None:
    """Let the server answer no more writes, and return when its replica has all those that it has answered."""
    master.ask("CLIENT", "PAUSE", 60_000, "WRITE")
    sent = _fact(master, "master_repl_offset")
    while f",offset={sent}," not in _facts(master):
        time.sleep(0.01)


def cut_off_replicas(master: ClusterNode) -> None:
    """Let the server go on answering while nothing of it reaches its replicas any more."""
    # A user that may do nothing but what our clients and this test need: no replica gets in with it any more.
    master.ask("ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    assert master.ask("CLIENT", "KILL", "TYPE", "replica") == 1


def fail_over(cluster: RedisCluster, master: ClusterNode, *, within: float = 30.0) -> ClusterNode:
    """Kill a master and return who serves its slots instead."""
    slot = next(slot for slot in range(0, 16_384, 1000) if cluster.owner(slot) is master)
    master.crash()
    end = time.monotonic() + within
    while (heir := cluster.owner(slot)) is master:
        assert time.monotonic() < end, "nobody took over"
        time.sleep(0.02)
    return heir


def hand_over(cluster: RedisCluster, slot: int, *, within: float = 30.0) -> None:
    """Let the replica of a slot's master take over as operators do it: the two agree, and nothing is lost."""
    master = cluster.owner(slot)
    end = time.monotonic() + within
    while not (replicas := cast("list[bytes]", master.ask("CLUSTER", "REPLICAS", master.id))):
        assert time.monotonic() < end, "it has no replica"  # it hears of one by the gossip, a little late
        time.sleep(0.02)
    heir = next(node for node in cluster.nodes if f":{node.port}@".encode() in replicas[0])
    while cluster.owner(slot) is not heir:
        assert time.monotonic() < end, "nobody took over"
        with contextlib.suppress(OSError):  # it has just become the master
            heir.ask(
                "CLUSTER", "FAILOVER"
            )  # the others vote at most once in two node time-outs: asked again until then
        time.sleep(0.5)
    cluster.await_well()


def left_in(cluster: RedisCluster, key: str, *, within: float = 3.0) -> list[str]:
    """Say what is still there *within* seconds: tickets of this key, and connections of ours."""
    end = time.monotonic() + within
    while (found := [*asyncio.run(_tickets(cluster, key)), *_connections(cluster)]) and time.monotonic() < end:
        time.sleep(0.05)
    return found


async def _tickets(cluster: RedisCluster, key: str) -> list[str]:
    async with aiodlock.connect(cluster.url) as locks:
        return [f"ticket {row}" async for row in locks.inspect(key)]


def _connections(cluster: RedisCluster) -> list[str]:
    lists = [cast(bytes, node.ask("CLIENT", "LIST")).decode() for node in cluster.nodes if node.running]
    return [line for text in lists for line in text.splitlines() if " name=aiodlock " in line]


def _facts(node: ClusterNode) -> str:
    return cast(bytes, node.ask("INFO", "replication")).decode()


def _fact(node: ClusterNode, name: str) -> str:
    return next(line.partition(":")[2] for line in _facts(node).splitlines() if line.startswith(f"{name}:"))
