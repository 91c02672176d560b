"""Two clients of one server: one has a proxy in its way, one has no trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiodlock
from aiodlock import LockClient
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer

__all__ = ["through", "two_clients"]


def through(proxy: FaultProxy) -> str:
    """Return the URL of the server behind *proxy*."""
    return f"redis://127.0.0.1:{proxy.port}/0"


@asynccontextmanager
async def two_clients(server: RedisServer, proxy: FaultProxy) -> AsyncIterator[tuple[LockClient, LockClient]]:
    """Open a client behind the proxy, and one that is not."""
    async with (
        aiodlock.connect(through(proxy), name="far") as far,
        aiodlock.connect(server.url, name="near") as near,
    ):
        yield far, near
