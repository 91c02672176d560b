"""The look at the servers sees each sort of thing that can be left there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import aiodlock
from aiodlock.testing.servers import RedisServer, require
from aiodlock.testing.servers.resp import ask
from tests.faults.leftovers import left_at


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


async def left_on(server: RedisServer, key: str) -> list[str]:
    """Say what is left, by the first word of each."""
    return [line.split()[0] for line in await left_at([server.url], [server], key, within=0.1)]


async def test_what_was_tidied_up_is_not_found(server: RedisServer) -> None:
    async with aiodlock.connect(server.url) as locks, locks.lock("tidy"):
        pass
    assert await left_on(server, "tidy") == []


async def test_a_ticket_and_a_connection_are_found(server: RedisServer) -> None:
    async with aiodlock.connect(server.url, name="web") as locks, locks.lock("kept"):
        assert await left_on(server, "kept") == ["connection", "ticket"]
        assert await left_on(server, "another") == ["connection"]


async def test_a_key_without_an_expiry_is_found(server: RedisServer) -> None:
    """Whichever of ours it is; whoever reads a line sees nothing wrong in it."""
    async with aiodlock.connect(server.url) as locks, locks.lock("stays"):
        pass
    assert ask(server.port, "PERSIST", "aiodlock:{stays}:lock") == 1
    assert await left_on(server, "another") == ["key"]
    ask(server.port, "DEL", "aiodlock:{stays}:lock")
