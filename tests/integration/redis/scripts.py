"""The scripts of the line, sent to a server before a test counts or keeps back what is sent."""

from __future__ import annotations

from aiodlock.backends.redis.scripts import load
from aiodlock.testing.servers import RedisServer
from aiodlock.testing.servers.resp import ask

__all__ = ["load_scripts"]


def load_scripts(server: RedisServer, *more: str) -> None:
    """Have them there: without its script a first verb is only asked for it, and one that arrives late does nothing."""
    for name in ("join", "leave", "renew", *more):
        ask(server.port, "SCRIPT", "LOAD", load(name).text)
