"""redis-lock-py: pub/sub, one connection per waiter. It shares its package name with python-redis-lock."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.peers.base import LEASE, UNBOUNDED, Entry, Peer

__all__ = ["PEERS"]

_PATIENCE = 3600  # it gives up after 60 s by default


class _RedisLockPy:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._module: Any = None

    async def open(self) -> None:
        driver = importlib.import_module("redis.asyncio")
        self._module = importlib.import_module("redis_lock.asyncio")
        self._client = driver.Redis.from_url(self._url, max_connections=UNBOUNDED)
        await self._client.ping()

    def lock(self, key: str) -> Entry:
        lock: Entry = self._module.RedisLock(self._client, key, blocking_timeout=_PATIENCE, expire_timeout=LEASE)
        return lock


PEERS = (
    Peer(
        "redis-lock-py",
        _RedisLockPy,
        note="pub/sub to every waiter, one connection each",
        requires=("redis-lock-py==1.3.0", "redis[hiredis]==8.1.0"),
        sends=frozenset({"set"}),
    ),
)
