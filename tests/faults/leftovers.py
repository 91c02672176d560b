"""What nothing may leave on Redis servers when it is over: tickets, keys without an expiry, connections.

Stocks have none on purpose: what is on sale stays until somebody deletes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import aiodlock
from aiodlock.testing.servers import RedisServer
from aiodlock.testing.servers.resp import ask, info

__all__ = ["left_at"]

_LOOKS = 40
_FOR_EVER = -1


async def left_at(urls: Sequence[str], servers: Iterable[RedisServer], key: str, *, within: float = 3.0) -> list[str]:
    """Say what is still there *within* seconds: tickets of *key* at these URLs, the rest on each server that runs."""
    running = [server for server in servers if server.running]
    for _ in range(_LOOKS):
        found = [line for server in running for line in (*_connections(server), *_keys(server))]
        if not (found := [*found, *[line for url in urls for line in await _tickets(url, key)]]):
            break
        await asyncio.sleep(within / _LOOKS)
    return found


async def _tickets(url: str, key: str) -> list[str]:
    async with aiodlock.connect(url) as locks:
        return [f"ticket {row}" async for row in locks.inspect(key)]


def _keys(server: RedisServer) -> Iterator[str]:
    if b"role:master" not in info(server.port, "replication"):
        return  # a copy, and in a cluster one that tells nothing
    for key in cast("list[bytes]", ask(server.port, "KEYS", "aiodlock:*")):
        if b"}:stock" not in key and ask(server.port, "PTTL", key.decode()) == _FOR_EVER:
            yield f"key {key.decode()} without an expiry at {server!r}"


def _connections(server: RedisServer) -> list[str]:
    clients = cast(bytes, ask(server.port, "CLIENT", "LIST")).decode()
    return [f"connection {line} at {server!r}" for line in clients.splitlines() if " name=aiodlock " in line]
