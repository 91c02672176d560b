"""aiozk: its own Lock recipe, over one connection per process."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from benchmarks.peers.base import LEASE, Entry, Peer

__all__ = ["PEERS"]


class _Aiozk:
    def __init__(self, url: str) -> None:
        self._hosts, _, self._root = url.removeprefix("zk://").partition("/")
        self._client: Any = None

    async def open(self) -> None:
        logging.getLogger("aiozk").setLevel(logging.CRITICAL)
        self._client = importlib.import_module("aiozk").ZKClient(self._hosts, session_timeout=LEASE)
        await self._client.start()

    def lock(self, key: str) -> Entry:
        return self._client.recipes.Lock(f"/{self._root}/aiozk/{key}")  # type: ignore[no-any-return]


PEERS = (
    Peer(
        "aiozk",
        _Aiozk,
        note="aiozk.recipes.Lock",
        requires=("aiozk==0.32.0",),
        server="zookeeper",
        sends=frozenset({"packet"}),
    ),
)
