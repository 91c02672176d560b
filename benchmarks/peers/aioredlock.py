"""aioredlock: one script per try, 0.1 to 0.3 s apart. Needs aioredis 1, and a Python that still has distutils."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from benchmarks.peers.base import LEASE, Entry, Peer

__all__ = ["PEERS"]

_PATIENCE = 1_000_000  # it raises after 3 tries by default, so under any contention


class _Stand:
    """Its locks exist only once they are acquired, so this one makes a new one at every entry."""

    def __init__(self, manager: Any, key: str) -> None:
        self._manager, self._key = manager, key
        self._lock: Any = None

    async def __aenter__(self) -> object:
        self._lock = await self._manager.lock(self._key, lock_timeout=LEASE)
        return self._lock

    async def __aexit__(self, *exc: object) -> None:
        await self._manager.unlock(self._lock)


class _Aioredlock:
    def __init__(self, url: str) -> None:
        self._url = url
        self._manager: Any = None

    async def open(self) -> None:
        module = importlib.import_module("aioredlock")
        logging.getLogger("aioredlock").setLevel(logging.CRITICAL)
        self._manager = module.Aioredlock([self._url], retry_count=_PATIENCE)

    def lock(self, key: str) -> Entry:
        return _Stand(self._manager, key)


PEERS = (
    Peer(
        "aioredlock",
        _Aioredlock,
        note="one script per try, made patient",
        requires=("aioredlock==0.7.3", "aioredis==1.3.1", "async-timeout>=4", "setuptools<70"),
    ),
)
