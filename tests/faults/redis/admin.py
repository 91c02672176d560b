"""A Redis server as its administrator sees it: also what clients may leave there, and must not."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import redis

import aiodlock
from aiodlock.testing.servers import RedisServer
from tests.faults.leftovers import left_at
from tests.faults.visits import until_in_line

__all__ = ["ask", "in_line", "left_on"]


def ask(server: RedisServer, *command: str) -> Any:
    """Ask the server as its administrator, on a connection of its own."""
    with redis.Redis(port=server.port, decode_responses=True) as admin:
        return admin.execute_command(*command)


async def in_line(server: RedisServer, key: str, count: int) -> None:
    """Return as soon as so many tickets stand in the lines of *key*."""
    async with aiodlock.connect(server.url) as locks:
        await until_in_line(locks, key, count)


def left_on(server: RedisServer, key: str, *, within: float = 3.0) -> Coroutine[None, None, list[str]]:
    """Say what is left on the server, see `left_at`."""
    return left_at([server.url], [server], key, within=within)
