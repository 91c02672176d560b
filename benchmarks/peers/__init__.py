"""Every lock that the harness knows, by name."""

from __future__ import annotations

from benchmarks.peers import (
    aioredlock,
    aiozk,
    blocking,
    coredis,
    crooked,
    kazoo,
    local,
    mysql,
    ours,
    pottery,
    python_redis_lock,
    redis_lock_py,
    redis_py,
)
from benchmarks.peers.base import Adapter, Entry, Peer, Role, Runner

__all__ = ["PEERS", "Adapter", "Entry", "Peer", "Role", "Runner"]

_MODULES = (
    local,
    blocking,
    redis_py,
    python_redis_lock,
    redis_lock_py,
    pottery,
    coredis,
    aioredlock,
    mysql,
    kazoo,
    aiozk,
    ours,
    crooked,
)

PEERS: dict[str, Peer] = {peer.name: peer for module in _MODULES for peer in module.PEERS}
