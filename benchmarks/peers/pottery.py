"""pottery's AIORedlock, on one master: try, undo, sleep up to 0.2 s."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.peers.base import LEASE, UNBOUNDED, Entry, Peer

__all__ = ["PEERS"]


class _Pottery:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._module: Any = None

    async def open(self) -> None:
        driver = importlib.import_module("redis.asyncio")
        self._module = importlib.import_module("pottery")
        self._client = driver.Redis.from_url(self._url, max_connections=UNBOUNDED)
        await self._client.ping()

    def lock(self, key: str) -> Entry:
        lock: Entry = self._module.AIORedlock(key=key, masters={self._client}, auto_release_time=LEASE)
        return lock


PEERS = (
    Peer(
        "pottery",
        _Pottery,
        note="AIORedlock on one master",
        requires=("pottery==3.0.1", "redis[hiredis]==8.1.0"),
        sends=frozenset({"set"}),
    ),
)
