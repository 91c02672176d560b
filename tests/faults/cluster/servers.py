"""What the fault tests do to a cluster, and what may not be left there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import cast

from redis.crc import key_slot

from aiodlock import LockClient
from aiodlock._core.line import LineId
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.backends.redis.keys import Keys
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ClusterNode, RedisCluster
from aiodlock.testing.servers.ports import HOST
from tests.faults.leftovers import left_at

__all__ = ["cut_off_replicas", "fail_over", "hand_over", "left_in", "proxied", "slot_of", "stop_writes"]


def slot_of(key: str) -> int:
    """Return the slot of the lock at *key*."""
    return key_slot(Keys().name(LineId("lock", key)).key)


@contextmanager
def proxied(cluster: RedisCluster) -> Iterator[tuple[LockClient, Sequence[FaultProxy]]]:
    """Yield a client, not yet open, called far, and what is between it and each server."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(FaultProxy(node.port)) for node in cluster.nodes]
        ports = {proxy.target: proxy.port for proxy in proxies}
        seeds = [Address(host=HOST, port=port) for port in ports.values()]
        yield LockClient(ClusterBackend(seeds, remap=lambda spot: (HOST, ports[spot[1]])), name="far"), proxies


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


def left_in(cluster: RedisCluster, key: str) -> list[str]:
    """Say what is left in the cluster, see `left_at`."""
    return asyncio.run(left_at([cluster.url], cluster.nodes, key))


def _facts(node: ClusterNode) -> str:
    return cast(bytes, node.ask("INFO", "replication")).decode()


def _fact(node: ClusterNode, name: str) -> str:
    return next(line.partition(":")[2] for line in _facts(node).splitlines() if line.startswith(f"{name}:"))
