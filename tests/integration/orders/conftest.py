"""One broker, one database and one Redis for all tests of this folder; a fresh stock and topic per test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pytest

import aiodlock
from aiodlock.inventory.orders import OrderWriter, OutboxRelay, Rows, make_topics, reconcile
from aiodlock.inventory.orders.database import Database
from aiodlock.sinks.kafka import KafkaSink
from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer, require

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    require(KafkaServer)
    with KafkaServer() as running:
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    require(MariaDBServer)
    with MariaDBServer() as running:
        yield running


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer(durable=True) as running:
        yield running


@pytest.fixture
async def topic(kafka: KafkaServer) -> str:
    name = f"orders-{next(_numbers)}"
    await make_topics(kafka.bootstrap, name, f"{name}.dead-letters", partitions=3)
    return name


@dataclass(frozen=True, slots=True)
class Shop:
    """A stock with an outbox, and what was sold of it: each order that was accepted, and whether it went back."""

    stock: aiodlock.SegmentedStock
    orders: dict[str, bool] = field(default_factory=dict)

    async def sell(self, orders: int) -> None:
        """Take and put back: the last hundred are refused, every tenth goes back, every third is reserved first."""
        await self.stock.load(orders - 100)

        async def buy(number: int) -> None:
            wish = {"buyer": f"b-{number}", "order": f"o-{number}"}
            sale = await (self.stock.reserve(**wish, hold_for=60) if number % 3 == 0 else self.stock.take(**wish))
            if not isinstance(sale, aiodlock.Taken):
                return
            self.orders[wish["order"]] = number % 10 == 0
            if number % 3 == 0:
                await self.stock.confirm(**wish)
            if number % 10 == 0:
                await self.stock.put_back(**wish)

        await asyncio.gather(*(buy(number) for number in range(orders)))

    async def expected(self) -> Rows:
        """Return what the rows must be in the end: one per order that was accepted."""
        audit = await self.stock.audit()
        assert audit.is_balanced
        return Rows(audit.accepted, audit.accepted - audit.returned, audit.returned)


@pytest.fixture
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """A shop whose stock is on Redis, or where the test's parameter says."""
    async with aiodlock.connect(request.getfixturevalue(getattr(request, "param", "redis")).url) as locks:
        yield Shop(locks.stock(f"stock-{next(_numbers)}", segments=3, outbox=True))


async def until(is_so: Callable[[], Awaitable[bool]], *, within: float = 30.0) -> None:
    """Return as soon as *is_so* says yes; fail if it has not in time."""
    end = asyncio.get_running_loop().time() + within
    while not await is_so():
        assert asyncio.get_running_loop().time() < end, f"not so within {within:g}s"
        await asyncio.sleep(0.05)


async def is_empty(shop: Shop) -> bool:
    """Tell whether everything in the outbox is in Kafka."""
    return not await shop.stock.read_outbox()


async def has_written(writer: OrderWriter, count: int) -> bool:
    return writer.written >= count


async def has_no_lag(writer: OrderWriter) -> bool:
    """Tell whether all that is in the topic has its row."""
    return await writer.lag() == 0


async def has_published(relay: OutboxRelay, count: int) -> bool:
    return relay.published >= count


async def has_part(writer: OrderWriter) -> bool:
    """Tell whether it has begun to read."""
    return bool(writer._next)


async def has_failed(sink: KafkaSink) -> bool:
    return sink.failures > 0


async def has_begun(sink: KafkaSink) -> bool:
    """Tell whether all that it took is on its way."""
    return sink.waiting > 0 and not sink._events


async def has_told_all(sink: KafkaSink) -> bool:
    return not sink.waiting


async def rows_become(writer: OrderWriter, stock: str, expected: tuple[int, int, int], *, within: float = 30.0) -> None:
    """Return when there are so many orders, with so much in all, and so much returned."""

    async def are_so() -> bool:
        return await writer.rows(stock) == Rows(*expected)

    await until(are_so, within=within)


async def landed(writer: OrderWriter, shop: Shop, *, within: float = 30.0) -> None:
    """Return when the rows are what they must be, order by order; fail if they are not in time."""
    expected = await shop.expected()
    await rows_become(writer, shop.stock.key, (expected.orders, expected.quantity, expected.returned), within=within)
    assert await orders_in(writer, shop.stock.key) == shop.orders


async def orders_in(writer: OrderWriter, stock: str) -> dict[str, bool]:
    """Return the orders of a stock that have a row, and whether each went back."""
    async with Database(writer._database.url) as database:
        ask = "SELECT order_id, state FROM aiodlock_orders WHERE stock = %s"
        return {bytes(order).decode(): state == 4 for order, state in await database.query(ask, (stock.encode(),))}


async def are_settled(writer: OrderWriter, shop: Shop) -> bool:
    """Tell whether nothing is on its way any more, neither in the outbox nor in the topic."""
    return (await reconcile(shop.stock, writer)).is_settled
