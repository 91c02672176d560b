"""One process's clients of four backends at once, and multi-locks over all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import aiodlock
from aiodlock import LockClient, MultiLock
from aiodlock._core.line import Row
from tests.integration.zookeeper.support import client as zookeeper_client
from tests.integration.zookeeper.support import until

__all__ = ["TTL", "Clients", "opened", "until"]

TTL = 3.0  # as long as the sessions of ZooKeeper that these clients have


class Clients:
    """A client of each backend, by its scheme; every member of its multi-locks is on another server."""

    def __init__(self, clients: dict[str, LockClient]) -> None:
        self.clients = clients

    def multi(self, keys: dict[str, str], *, order: Iterable[str] | None = None) -> MultiLock:
        """Return the locks of *keys*, one on each backend named there, asked for in this *order*."""
        members = [self.clients[name].lock(keys[name], ttl=TTL) for name in order or keys]
        return next(iter(self.clients.values())).multi(*members)

    async def rows(self, keys: dict[str, str]) -> dict[str, list[Row]]:
        """Return who is in the lines of *keys*, by backend; nobody's line is left out."""
        found = {name: [row async for row in self.clients[name].inspect(key)] for name, key in keys.items()}
        return {name: rows for name, rows in found.items() if rows}

    async def until_empty(self, keys: dict[str, str], *, but: Sequence[str] = ()) -> None:
        """Return as soon as nobody is in any line, long before one ends by itself; *but*: where nobody can look."""
        seen = {name: key for name, key in keys.items() if name not in but}

        async def is_empty() -> bool:
            return not await self.rows(seen)

        await until(is_empty, within=0.8 * TTL)


@asynccontextmanager
async def opened(urls: dict[str, str], name: str) -> AsyncIterator[Clients]:
    """Open a client of every backend under one name."""
    async with AsyncExitStack() as stack:
        clients = {scheme: await stack.enter_async_context(_client(url, name)) for scheme, url in urls.items()}
        yield Clients(clients)


def _client(url: str, name: str) -> LockClient:
    return zookeeper_client(url, name=name, session=TTL) if url.startswith("zk:") else aiodlock.connect(url, name=name)
