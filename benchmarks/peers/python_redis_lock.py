"""python-redis-lock: BLPOP on a list that the release pushes to. Made for threads, so every waiter is one."""

from __future__ import annotations

import asyncio
import importlib
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.peers.base import LEASE, UNBOUNDED, Entry, Peer

__all__ = ["PEERS"]


class _InThread:
    """A blocking lock, entered and left in the pool's threads."""

    def __init__(self, lock: Any, pool: ThreadPoolExecutor) -> None:
        self._lock, self._pool = lock, pool

    async def __aenter__(self) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._lock.acquire)

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._pool, self._lock.release)


class _PythonRedisLock:
    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = ThreadPoolExecutor(max_workers=20_000)  # a release must never wait behind parked acquires
        self._client: Any = None
        self._module: Any = None

    async def open(self) -> None:
        driver = importlib.import_module("redis")
        self._module = importlib.import_module("redis_lock")
        logging.getLogger("redis_lock").setLevel(logging.ERROR)
        # redis-py 8 cuts a blocking pop after 5 s by default, which would make this peer slower than it is.
        self._client = driver.Redis.from_url(self._url, max_connections=UNBOUNDED, socket_timeout=2 * LEASE)
        self._client.ping()

    def lock(self, key: str) -> Entry:
        return _InThread(self._module.Lock(self._client, key, expire=LEASE), self._pool)


PEERS = (
    Peer(
        "python-redis-lock",
        _PythonRedisLock,
        note="BLPOP, one thread and one connection per waiter",
        requires=("python-redis-lock==4.0.1", "redis[hiredis]==8.1.0"),
        sends=frozenset({"get", "set", "blpop"}),
        scripts_call={"get": 1},
    ),
)
