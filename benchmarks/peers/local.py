"""asyncio.Lock: no server, one process; the bound for everything that switches tasks."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from benchmarks.peers.base import Peer, Role

__all__ = ["PEERS"]


class _Asyncio:
    def __init__(self, url: str) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def open(self) -> None:
        pass

    def lock(self, key: str) -> asyncio.Lock:
        return self._locks[key]


PEERS = (Peer("asyncio", _Asyncio, note="asyncio.Lock, one process", server=None, shared=False, role=Role.LIMIT),)
