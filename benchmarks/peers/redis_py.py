"""redis-py's own Lock: SET NX, then sleep and try again."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.peers.base import LEASE, UNBOUNDED, Entry, Peer

__all__ = ["PEERS", "REQUIRES"]

REQUIRES = ("redis[hiredis]==8.1.0",)


class _RedisPy:
    def __init__(self, url: str, *, sleep: float) -> None:
        self._url, self._sleep = url, sleep
        self._client: Any = None

    async def open(self) -> None:
        driver = importlib.import_module("redis.asyncio")
        self._client = driver.Redis.from_url(self._url, max_connections=UNBOUNDED)
        await self._client.ping()

    def lock(self, key: str) -> Entry:
        lock: Entry = self._client.lock(key, timeout=LEASE, sleep=self._sleep)
        return lock


def _peer(name: str, sleep: float, note: str) -> Peer:
    return Peer(name, lambda url: _RedisPy(url, sleep=sleep), note=note, requires=REQUIRES, sends=frozenset({"set"}))


PEERS = (
    _peer("redis-py", 0.1, "redis.asyncio Lock, sleep=0.1 (default)"),
    _peer("redis-py-10ms", 0.01, "redis.asyncio Lock, sleep=0.01"),
    _peer("redis-py-1ms", 0.001, "redis.asyncio Lock, sleep=0.001"),
)
