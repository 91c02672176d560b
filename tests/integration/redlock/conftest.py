"""Five independent masters, each behind a proxy of its own where a test harms the way to it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import pytest

from aiodlock import LockClient
from aiodlock._core.line import Inside, LineId, Row, Ticket, TicketId
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.master import Master
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


async def until_empty(node: RedisServer, key: str, *, within: float = 20.0) -> None:
    """A leave that nobody waits for is under way."""
    await until_shown(node, key, [], within=within)


async def until_shown(node: RedisServer, key: str, inside: list[bool], *, within: float = 20.0) -> None:
    """Return when one server shows these tickets."""
    async with asyncio.timeout(within):
        while [row.inside for row in await rows_on(node, key)] != inside:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def ticket(key: str, name: str) -> Ticket:
    return Ticket.of(LineId("lock", key), TicketId(name), owner=name)


def node_address(port: int) -> Address:
    return Address(host="127.0.0.1", port=port)


@asynccontextmanager
async def taken(nodes: Sequence[RedisServer], key: str) -> AsyncIterator[None]:
    """Let each of these servers have somebody else inside."""
    others = [Master(node_address(node.port)) for node in nodes]
    for number, other in enumerate(others):
        await other.open(lambda call: None)
        assert isinstance(await other.join(ticket(key, f"theirs-{number}"), queue=False), Inside)
    yield
    for number, other in enumerate(others):
        await other.leave(ticket(key, f"theirs-{number}"))
        await other.aclose()
