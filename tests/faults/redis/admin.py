"""A Redis server as its administrator sees it: also what clients may leave there, and must not."""

from __future__ import annotations

import asyncio
from typing import Any

import redis

import aiodlock
from aiodlock.testing.servers import RedisServer
from tests.faults.visits import until_in_line

__all__ = ["ask", "in_line", "left_on"]

_LOOKS = 40


def ask(server: RedisServer, *command: str) -> Any:
    """Ask the server as its administrator, on a connection of its own."""
    with redis.Redis(port=server.port, decode_responses=True) as admin:
        return admin.execute_command(*command)


async def in_line(server: RedisServer, key: str, count: int) -> None:
    """Return as soon as so many tickets stand in the lines of *key*."""
    async with aiodlock.connect(server.url) as locks:
        await until_in_line(locks, key, count)


async def left_on(server: RedisServer, key: str, *, within: float = 2.0) -> list[str]:
    """Say what is still there *within* seconds: tickets of this key, keys without an expiry, connections of ours."""
    for _ in range(_LOOKS):
        if not (found := [*_connections(server), *_keys(server), *await _tickets(server, key)]):
            break
        await asyncio.sleep(within / _LOOKS)
    return found


async def _tickets(server: RedisServer, key: str) -> list[str]:
    async with aiodlock.connect(server.url) as locks:
        return [f"ticket {row}" async for row in locks.inspect(key)]


def _keys(server: RedisServer) -> list[str]:
    with redis.Redis(port=server.port, decode_responses=True) as admin:
        return [f"key {key} without an expiry" for key in admin.scan_iter("aiodlock:*") if admin.ttl(key) == -1]


def _connections(server: RedisServer) -> list[str]:
    with redis.Redis(port=server.port, decode_responses=True) as admin:
        return [f"connection {one}" for one in admin.client_list() if one["name"] == "aiodlock"]
