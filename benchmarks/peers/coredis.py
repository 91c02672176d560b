"""coredis' Lock: SET NX and sleep, on multiplexed connections."""

from __future__ import annotations

import importlib
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.peers.base import LEASE, Entry, Peer

__all__ = ["PEERS"]


class _Coredis:
    def __init__(self, url: str, *, sleep: float) -> None:
        self._url, self._sleep = url, sleep
        self._open = AsyncExitStack()
        self._client: Any = None
        self._module: Any = None

    async def open(self) -> None:
        driver = importlib.import_module("coredis")
        self._module = importlib.import_module("coredis.patterns.lock")
        self._client = await self._open.enter_async_context(driver.Redis.from_url(self._url))
        await self._client.ping()

    def lock(self, key: str) -> Entry:
        lock: Entry = self._module.Lock(self._client, key, timeout=LEASE, sleep=self._sleep)
        return lock


def _peer(name: str, sleep: float, note: str) -> Peer:
    return Peer(
        name,
        lambda url: _Coredis(url, sleep=sleep),
        note=note,
        requires=("coredis==6.9.0",),
        sends=frozenset({"set"}),
    )


PEERS = (
    _peer("coredis", 0.1, "coredis Lock, sleep=0.1 (default)"),
    _peer("coredis-1ms", 0.001, "coredis Lock, sleep=0.001"),
)
