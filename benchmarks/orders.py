"""Orders landed as rows, against the bare pipeline: ``python -m benchmarks.orders [--check]``.

Both sides bring as many messages through the same Kafka into the same MariaDB, one process. The bare side produces,
consumes and inserts in batches, and promises nothing: no stock, no outbox, no offset with the rows.
Ours is everything from `stock.take` to the row. The lag is how long the last row comes after the last take.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import asyncmy
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import aiodlock
from aiodlock.inventory.orders import OrderWriter, OutboxRelay, make_topics
from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer
from benchmarks.checks import Check, add_options, conclude
from benchmarks.figures import Spread
from benchmarks.options import Parser, count
from benchmarks.report import number

__all__ = ["Servers", "main", "rounds"]

_FLOOR = 0.3
_BATCH = 1000
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Servers:
    """What both sides use."""

    kafka: KafkaServer
    mariadb: MariaDBServer
    redis: RedisServer

    async def topic(self) -> str:
        """Make a fresh topic of four partitions."""
        name = f"bench-{next(_numbers)}"
        await make_topics(self.kafka.bootstrap, name)
        return name


async def bare(servers: Servers, count: int) -> float:
    """Return the messages per second from the first produced to the last inserted."""
    topic = await servers.topic()
    bootstrap = servers.kafka.bootstrap
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=2)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    database = await asyncmy.connect(host="127.0.0.1", port=servers.mariadb.port, user="root", database="aiodlock")
    async with database.cursor() as cursor:
        await cursor.execute(f"CREATE TABLE `{topic}` (id VARBINARY(255) PRIMARY KEY, value VARBINARY(255))")
    await producer.start()
    await consumer.start()
    try:
        await _until_assigned(consumer)
        began = time.perf_counter()
        await asyncio.gather(_produce(producer, topic, count), _insert(consumer, database, topic, count))
        return count / (time.perf_counter() - began)
    finally:
        await producer.stop()
        await consumer.stop()
        database.close()


async def _until_assigned(consumer: AIOKafkaConsumer) -> None:
    while not consumer.assignment():  # noqa: ASYNC110 (it has no event for that)
        await asyncio.sleep(0.01)


async def _produce(producer: AIOKafkaProducer, topic: str, count: int) -> None:
    sent = [await producer.send(topic, b"x" * 100, key=b"order-%d" % number) for number in range(count)]
    await asyncio.gather(*sent)


async def _insert(consumer: AIOKafkaConsumer, database: asyncmy.Connection, topic: str, count: int) -> None:
    inserted = 0
    while inserted < count:
        found = await consumer.getmany(timeout_ms=200, max_records=_BATCH)
        rows = [(record.key, record.value) for records in found.values() for record in records]
        if rows:
            async with database.cursor() as cursor:
                await cursor.executemany(f"INSERT INTO `{topic}` (id, value) VALUES (%s, %s)", rows)
            await database.commit()
        inserted += len(rows)


async def ours(servers: Servers, count: int) -> tuple[float, float]:
    """Return the orders per second from the first take to the last row, and the seconds from the last take to it."""
    topic = await servers.topic()
    async with contextlib.AsyncExitStack() as stack:
        locks = await stack.enter_async_context(aiodlock.connect(servers.redis.url))
        stock = locks.stock(topic, segments=16, once_per_buyer=True, outbox=True)
        await stock.load(count)
        await stack.enter_async_context(OutboxRelay(stock, servers.kafka.bootstrap, topic=topic, idle=0.01))
        writer = OrderWriter(servers.kafka.bootstrap, servers.mariadb.url, topic=topic, group=topic)
        await stack.enter_async_context(writer)
        while not writer.has_part:  # noqa: ASYNC110 (its start is not part of the race)
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        numbers = iter(range(count))
        await asyncio.gather(*(_shop(stock, numbers) for _ in range(1000)))
        sold = time.perf_counter()
        while writer.written < count:  # noqa: ASYNC110 (it is asked every few milliseconds)
            await asyncio.sleep(0.005)
        landed = time.perf_counter()
        rows = await writer.rows(topic)
        assert (rows.orders, rows.quantity) == (count, count), rows
    return count / (landed - began), landed - sold


async def _shop(stock: aiodlock.SegmentedStock, numbers: Iterator[int]) -> None:
    for one in numbers:
        await stock.take(buyer=f"buyer-{one}", order=f"order-{one}")


async def rounds(turns: int, count: int) -> list[Check]:
    """Run both sides so many times, and hold the ratio against its floor."""
    with KafkaServer() as kafka, MariaDBServer() as mariadb, RedisServer() as redis:
        servers = Servers(kafka, mariadb, redis)
        pairs = [(await ours(servers, count), await bare(servers, count)) for _ in range(turns)]
    ratio = Spread.of([rate / theirs for (rate, _), theirs in pairs])
    rates = Spread.of([rate for (rate, _), _ in pairs]).median, Spread.of([theirs for _, theirs in pairs]).median
    spread = f"{ratio.least:.2f}-{ratio.most:.2f}, {number(rates[0])}/s against {number(rates[1])}/s"
    lag = Spread.of([lag for (_, lag), _ in pairs])
    return [
        Check("orders landed as rows: x bare pipeline", ratio.median, least=_FLOOR, spread=spread),
        Check("lag of the last row, seconds", lag.median, spread=f"{lag.least:.2f}-{lag.most:.2f}"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with ``--check`` fail if the floor is missed."""
    parser = Parser(prog="python -m benchmarks.orders", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--orders", type=count, default=20_000)
    add_options(parser)
    options = parser.parse_args(arguments)
    checks = asyncio.run(rounds(options.rounds, options.orders))
    return conclude(checks, must_hold=options.check, path=options.json)


if __name__ == "__main__":
    sys.exit(main())
