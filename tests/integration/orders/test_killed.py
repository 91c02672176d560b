"""Shops, relay, writer, broker and Redis are killed while orders flow: in the end each accepted order is one row."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack

import pytest

import aiodlock
from aiodlock import Returned, Taken
from aiodlock.inventory.orders import OrderWriter, OutboxRelay
from aiodlock.testing.processes import Worker, WorkerFailedError
from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer
from tests.integration.orders.conftest import Shop, is_empty, landed, until

HERE = "tests.integration.orders.workers"


class Crew:
    """The processes of the pipeline; who is killed is replaced."""

    def __init__(self, stack: ExitStack, redis: str, kafka: str, mysql: str, stock: str, topic: str) -> None:
        self._stack = stack
        self._facts = {
            "relay": {"redis": redis, "kafka": kafka, "stock": stock, "topic": topic},
            "writer": {"kafka": kafka, "mysql": mysql, "topic": topic},
        }
        self._shop = {"redis": redis, "stock": stock}
        self.at_work = {name: self._start(name) for name in self._facts}

    def _start(self, name: str) -> Worker:
        return self._stack.enter_context(Worker(f"{HERE}:{name}", who=name, **self._facts[name]))  # type: ignore[arg-type]

    def shop(self, number: int) -> Worker:
        return self._stack.enter_context(
            Worker(f"{HERE}:shop", who=f"shop-{number}", first=10_000 * number, orders=250, **self._shop)  # type: ignore[arg-type]
        )

    def kill(self, name: str, *, at: int) -> None:
        """Kill it when it has told of its work so many times, and let another take over."""
        self.at_work[name].await_event("did", within=30, count=at)
        self.at_work[name].kill()
        self.at_work[name] = self._start(name)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", ["before publish", "after publish"])
async def test_a_relay_killed_at_a_point_loses_nothing(
    redis: RedisServer, kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str, point: str
) -> None:
    """Between the outbox and Kafka, and between Kafka and the outbox."""
    await shop.sell(300)
    facts = {"redis": redis.url, "kafka": kafka.bootstrap, "stock": shop.stock.key, "topic": topic}
    await asyncio.to_thread(die, "relay", point=point, **facts)
    async with (
        OutboxRelay(shop.stock, kafka.bootstrap, topic=topic),
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer,
    ):
        await landed(writer, shop)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", ["before run_many", "after run_many", "before commit", "after commit"])
async def test_a_writer_killed_at_a_point_loses_nothing(
    kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str, point: str
) -> None:
    """Before its rows, between them and their offset, and on both sides of the commit."""
    await shop.sell(300)
    async with OutboxRelay(shop.stock, kafka.bootstrap, topic=topic):
        await until(lambda: is_empty(shop))
    await asyncio.to_thread(die, "writer", point=point, kafka=kafka.bootstrap, mysql=mariadb.url, topic=topic)
    async with OrderWriter(kafka.bootstrap, mariadb.url, topic=topic, group=topic) as writer:
        await landed(writer, shop)


def die(who: str, **facts: str) -> None:
    """Run a part until it kills itself."""
    with Worker(f"{HERE}:{who}", who=who, **facts) as worker, pytest.raises(WorkerFailedError, match="ended with -9"):
        worker.join(within=60)


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(2))
async def test_whoever_is_killed_each_accepted_order_is_one_row(
    redis: RedisServer, kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str, seed: int
) -> None:
    dice = random.Random(seed)
    await shop.stock.load(400)

    def rough_day() -> None:
        with ExitStack() as stack:
            crew = Crew(stack, redis.url, kafka.bootstrap, mariadb.url, shop.stock.key, topic)
            shops = [crew.shop(number) for number in range(3)]
            crew.kill("relay", at=dice.randrange(2, 5))
            crew.kill("writer", at=dice.randrange(1, 3))
            shops[0].await_event("did", within=30, count=50)
            shops[0].kill()
            for one in (*shops[1:], crew.at_work["relay"]):  # who has not connected yet would not find it
                one.await_event("did", within=30)
            redis.crash()
            redis.start()
            kafka.crash()
            kafka.start()
            crew.kill("relay", at=1)
            crew.kill("writer", at=1)
            for one in shops[1:]:
                one.join(within=60)

    await asyncio.to_thread(rough_day)
    async with aiodlock.connect(redis.url) as locks:  # what the crew left is taken up
        stock = locks.stock(shop.stock.key, segments=3, outbox=True)
        async with (
            OutboxRelay(stock, kafka.bootstrap, topic=topic),
            OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer,
        ):
            orders = await sold(stock, 3)
            await landed(writer, Shop(stock, orders), within=60)
    assert len(orders) > 300


async def sold(stock: aiodlock.SegmentedStock, shops: int) -> dict[str, bool]:
    """Ask a closed stock for each order of the shops: those that it knows were accepted; tell which went back."""
    await stock.close()
    numbers = [10_000 * shop + number for shop in range(shops) for number in range(250)]
    sales = await asyncio.gather(*(stock.take(buyer=f"b-{number}", order=f"o-{number}") for number in numbers))
    return {
        f"o-{number}": isinstance(sale, Returned)
        for number, sale in zip(numbers, sales, strict=True)
        if isinstance(sale, Taken | Returned)
    }
