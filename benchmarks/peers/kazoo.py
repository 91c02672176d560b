"""kazoo: ZooKeeper's Lock recipe for threads, so every waiter is one; all of a process over one connection."""

from __future__ import annotations

import asyncio
import importlib
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.peers.base import LEASE, Entry, Peer

__all__ = ["PEERS"]


class _InThread:
    """A blocking lock, entered and left in the pool's threads."""

    def __init__(self, lock: Any, pool: ThreadPoolExecutor) -> None:
        self._lock, self._pool = lock, pool

    async def __aenter__(self) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._lock.acquire)

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._pool, self._lock.release)


class _Kazoo:
    def __init__(self, url: str) -> None:
        self._hosts, _, self._root = url.removeprefix("zk://").partition("/")
        self._pool = ThreadPoolExecutor(max_workers=20_000)  # a release must never wait behind parked acquires
        self._client: Any = None

    async def open(self) -> None:
        logging.getLogger("kazoo").setLevel(logging.ERROR)
        self._client = importlib.import_module("kazoo.client").KazooClient(hosts=self._hosts, timeout=LEASE)
        self._client.start()

    def lock(self, key: str) -> Entry:
        return _InThread(self._client.Lock(f"/{self._root}/kazoo/{key}", "bench"), self._pool)


PEERS = (
    Peer(
        "kazoo",
        _Kazoo,
        note="kazoo.recipe.lock.Lock, one thread per waiter",
        requires=("kazoo==2.11.0",),
        server="zookeeper",
        sends=frozenset({"packet"}),
    ),
)
