"""A client of sentinels that is cancelled at any moment leaves no task, connection or ticket."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from aiodlock.backends.redis.backend import RedisBackend
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.sentinel import SentinelBackend
from aiodlock.testing.servers import SentinelService
from aiodlock.testing.servers.resp import ask
from tests.integration.redis.conftest import until
from tests.integration.sentinel.conftest import client_of


def connections(service: SentinelService) -> list[str]:
    """Return our connections that the servers and sentinels see."""
    everybody = (*service.servers, *service.sentinels)
    lists = [cast(bytes, ask(server.port, "CLIENT", "LIST")).decode() for server in everybody]
    return [line for text in lists for line in text.splitlines() if "name=aiodlock " in line]


async def visit(service: SentinelService) -> None:
    async with client_of(service, "a", min_replicas=1) as locks, locks.lock("cancelled", ttl=30, wait=10):
        await asyncio.sleep(0.005)


async def cancel_at_many_moments(service: SentinelService) -> int:
    """Cancel a visit after more and more time, until one is over before; return how many were cancelled."""
    for moment in range(1000):
        visiting = asyncio.create_task(visit(service))
        await asyncio.wait({visiting}, timeout=moment * 0.0005)
        if not visiting.cancel():
            return moment
        await asyncio.wait({visiting})
        assert visiting.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
    raise AssertionError("it is never over")


async def test_a_visit_cancelled_at_any_moment_leaves_nothing(service: SentinelService) -> None:
    """While it looks for the master, connects, subscribes, joins, holds, leaves or closes."""
    assert await cancel_at_many_moments(service) > 5
    await until(lambda: not connections(service))
    async with client_of(service, "b") as locks, locks.lock("cancelled", wait=0):
        assert [row.owner async for row in locks.inspect("cancelled")] == ["b"]


async def test_a_client_that_forgets_its_watchers_is_found(
    service: SentinelService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    forgotten: list[Node] = []

    async def aclose(self: SentinelBackend) -> None:
        forgotten.extend(self._watching)
        await RedisBackend.aclose(self)

    monkeypatch.setattr(SentinelBackend, "aclose", aclose)
    with pytest.raises(AssertionError):
        await cancel_at_many_moments(service)
    for node in forgotten:
        await node.aclose()
