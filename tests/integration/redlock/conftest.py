"""Five independent masters, each behind a proxy of its own where a test harms the way to it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

from aiodlock import LockClient
from aiodlock._core.line import LineId, Row
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.redlock import RedlockBackend
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import IndependentMasters, RedisServer, require

_ids = itertools.count(1)
Connect = Callable[..., Awaitable[LockClient]]


@pytest.fixture(scope="session")
def shared_masters() -> Iterator[IndependentMasters]:
    require(RedisServer)
    with IndependentMasters() as running:
        yield running


@pytest.fixture
def masters() -> Iterator[IndependentMasters]:
    """Servers that a test may kill, freeze and restart."""
    require(RedisServer)
    with IndependentMasters() as running:
        yield running


@pytest.fixture
def proxies(shared_masters: IndependentMasters) -> Iterator[list[FaultProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy(node.port)) for node in shared_masters.nodes]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect(to: Sequence[RedisServer | FaultProxy], **settings: Any) -> LockClient:
            backend = RedlockBackend([Address(host="127.0.0.1", port=one.port) for one in to], **settings)
            return await stack.enter_async_context(LockClient(backend))

        yield connect


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"{request.function.__name__}-{next(_ids)}"


async def rows_on(node: RedisServer, key: str, *, kind: str = "lock") -> list[Row]:
    """Return the tickets that one server has for *key*, whatever the others say."""
    alone = RedisBackend.from_url(node.url)
    await alone.open(lambda call: None)
    try:
        return [*await alone.inspect(*LineId(kind, key))]
    finally:
        await alone.aclose()
