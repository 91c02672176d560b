"""The writer: orders out of Kafka into rows of MySQL, each exactly once.

Rows and the offset behind them are written in one transaction, and the offset only moves on from where this writer has
read: a writer that was replaced and does not know it changes nothing. Kafka's own offsets are not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from aiodlock._core.stock import Move
from aiodlock.errors import BackendDataError, BackendUnavailableError, MissingDependencyError
from aiodlock.events import EventSink
from aiodlock.inventory.orders.access import Access
from aiodlock.inventory.orders.database import Database, statement
from aiodlock.inventory.orders.driver import end, see_through
from aiodlock.inventory.orders.keeper import Keeper
from aiodlock.inventory.orders.landing import Landing, Rows, partitions_of
from aiodlock.inventory.orders.message import Message
from aiodlock.inventory.orders.publisher import Publisher

try:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
except ImportError as error:
    raise MissingDependencyError("Kafka", extra="kafka") from error

__all__ = ["OrderWriter"]

_STATES = {Move.RESERVED: 1, Move.TAKEN: 2, Move.CONFIRMED: 3, Move.RETURNED: 4}
_MOST_RECORDS = 1000  # in one transaction
_LONGEST_KEY, _LONGEST_LETTER = 1_000, 900_000  # bytes of a dead letter
_ENDED_WITHIN = 10.0
_POLL = 0.2
_PATIENCE = 10.0


class OrderWriter(Keeper):
    """Reads *topic* and writes rows into *database* (``mysql://user:password@host:port/name``), from ``async with`` on.

    Any number of processes may run one under the same *group*; each has its part of the topic. A message that is none
    goes to *dead_letters*, and the others go on. What fails, also for want of the topic, is told and tried again in the
    background, with a growing pause. *access*: TLS and SASL for the broker.
    """

    def __init__(
        self,
        bootstrap: str,
        database: str,
        *,
        topic: str,
        group: str = "aiodlock-orders",
        dead_letters: str | None = None,
        on_event: EventSink | None = None,
        **access: Unpack[Access],
    ) -> None:
        super().__init__(f"writer of {topic}", idle=0.0, ended_within=_ENDED_WITHIN, on_event=on_event)
        self.written = 0
        self.poisoned = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        self._dead_letters = dead_letters or f"{topic}.dead-letters"
        self._access = access
        self._publisher = Publisher(bootstrap, **access)
        self._database = Database(database)
        self._landing = Landing(bootstrap, database, topic, access)
        self._consumer: Any = None
        self._next: dict[TopicPartition, int] = {}
        self._mishap: Exception | None = None  # of a listener, whose errors the driver keeps to itself
        self._turn = asyncio.Lock()  # at the database: partitions are given to us while we write

    @property
    def has_part(self) -> bool:
        """Whether it has its part of the topic, and reads."""
        return bool(self._next)

    @property
    def session(self) -> int:
        """The database's number of its connection, 0 without one: what ``KILL CONNECTION`` takes."""
        return self._database.session

    async def lag(self) -> int:
        """Return how many messages of the topic have no row yet, of all writers together; it need not be started.

        Cancellation: nothing is left behind.
        """
        return await self._landing.lag()

    async def rows(self, stock: str) -> Rows:
        """Return what is written of one stock, over a connection of its own; it need not be started.

        Cancellation: nothing is left behind.
        """
        return await self._landing.rows(stock)

    async def _step(self) -> bool:
        """Read some messages and write them. After a failure everything is opened anew, and read from the offsets."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._ready()
                found = await self._consumer.getmany(timeout_ms=int(_POLL * 1000), max_records=_MOST_RECORDS)
                if self._mishap is not None:
                    raise self._mishap
                if found:
                    async with self._turn:
                        await self._write(found)
            return True
        except BaseException:
            await self._let_go()
            raise

    async def _end(self) -> None:
        await self._let_go()
        await self._publisher.aclose()

    async def _ready(self) -> None:
        if self._consumer is not None:
            return
        await self._database.open()
        if not await self._database.has_tables():
            await self._database.run(statement("schema"))
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            request_timeout_ms=int(_PATIENCE * 500),
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            **self._access,
        )
        await see_through(self._consumer.start(), within=_PATIENCE)
        await partitions_of(self._consumer, self._topic)
        self._consumer.subscribe([self._topic], listener=_Resume(self))

    async def _let_go(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._mishap = None
        self._next.clear()
        await self._database.aclose()
        if consumer is not None:
            await end(consumer.stop, consumer._client.close)

    async def _resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Go on in each of *partitions* behind the last message that has its row.

        The driver reads nothing meanwhile, so the time limit of a step is one of this as well.
        """
        try:
            async with self._turn:
                for partition in partitions:
                    self._next[partition] = await self._offset_of(partition)
                    self._consumer.seek(partition, self._next[partition])
        except Exception as error:
            self._mishap = error

    async def _offset_of(self, partition: TopicPartition) -> int:
        which = partition.topic.encode(), partition.partition
        ask = "SELECT next_offset FROM aiodlock_offsets WHERE topic = %s AND part = %s"
        if found := await self._database.query(ask, which):
            return int(found[0][0])
        insert = "INSERT INTO aiodlock_offsets VALUES (%s, %s, 0) ON DUPLICATE KEY UPDATE part = part"
        await self._database.run(insert, which)
        return int((await self._database.query(ask, which))[0][0])

    async def _write(self, found: Mapping[TopicPartition, Sequence[Any]]) -> None:
        orders, poison = _sorted(record for records in found.values() for record in records)
        if poison:  # before the offset moves on: one that is told twice is better than one that is lost
            await self._publisher.publish(self._dead_letters, poison)
        await self._database.begin()
        if orders:
            await self._database.run_many(statement("order"), [_row(message) for message in orders])
        for partition, records in found.items():
            await self._move_on(partition, records[-1].offset + 1)
        await self._database.commit()
        self.written += len(orders)
        self.poisoned += len(poison)

    async def _move_on(self, partition: TopicPartition, to: int) -> None:
        set_ = "UPDATE aiodlock_offsets SET next_offset = %s WHERE topic = %s AND part = %s AND next_offset = %s"
        came_from = self._next.get(partition, -1)  # unknown: taken away from us, or its offset could not be read
        moved = await self._database.run(set_, (to, partition.topic.encode(), partition.partition, came_from))
        if moved != 1:
            raise BackendUnavailableError(f"{partition} was written by another writer meanwhile: read its offset again")
        if partition in self._next:  # else it was taken away from us meanwhile
            self._next[partition] = to


class _Resume(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, writer: OrderWriter) -> None:
        self._writer = writer

    async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        for partition in revoked:
            self._writer._next.pop(partition, None)

    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        await self._writer._resume(assigned)


def _sorted(records: Any) -> tuple[list[Message], list[tuple[bytes, bytes]]]:
    """Return the messages about orders, and the others as they came, as far as a broker takes them uncompressed."""
    orders: list[Message] = []
    poison: list[tuple[bytes, bytes]] = []
    for record in records:
        try:
            orders.append(Message.decode(record.value))
        except BackendDataError:
            poison.append(((record.key or b"")[:_LONGEST_KEY], (record.value or b"")[:_LONGEST_LETTER]))
    return orders, poison


def _row(message: Message) -> tuple[object, ...]:
    one = message.movement
    names = (message.stock.encode(), one.order.encode(), one.buyer.encode())
    return *names, one.quantity, one.segment, _STATES[one.move]
