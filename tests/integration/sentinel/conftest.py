"""One service for all tests of this folder; every server is well again after each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock.backends.redis.sentinel import SentinelBackend
from aiodlock.testing.servers import RedisSentinel, RedisServer, SentinelService, require


@pytest.fixture(scope="session")
def running() -> Iterator[SentinelService]:
    require(RedisServer)
    require(RedisSentinel)
    with SentinelService() as service:
        yield service


@pytest.fixture
def service(running: SentinelService) -> Iterator[SentinelService]:
    """The service; every server is well again afterwards."""
    yield running
    running.heal()


@asynccontextmanager
async def client_of(service: SentinelService, name: str, **settings: Any) -> AsyncIterator[LockClient]:
    async with aiodlock.connect(service.url, name=name, **{"patience": 1.0, **settings}) as locks:
        yield locks


def port_of(locks: LockClient) -> int | None:
    """Return the port of the server that *locks* talks to."""
    assert isinstance(locks.backend, SentinelBackend)
    peer = locks.backend._node.peer
    return peer and peer[1]
