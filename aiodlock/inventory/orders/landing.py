"""What of a topic has landed in the database: asked over connections of its own, whoever writes there."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from aiodlock.errors import BackendUnavailableError, MissingDependencyError
from aiodlock.inventory.orders.access import Access
from aiodlock.inventory.orders.database import Database, statement
from aiodlock.inventory.orders.driver import end, see_through

try:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import KafkaError
except ImportError as error:
    raise MissingDependencyError("Kafka", extra="kafka") from error

__all__ = ["Landing", "Rows", "partitions_of"]

_T = TypeVar("_T")

_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one stock: how many orders, and what those have that were not returned."""

    orders: int
    quantity: int
    returned: int


async def partitions_of(consumer: Any, topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic; one that is not there is told: a consumer would wait for it without a word."""
    cluster = await consumer._client.fetch_all_metadata()
    found = cluster.partitions_for_topic(topic)
    if not found:
        raise BackendUnavailableError(f"topic {topic!r} is not there: make it, or see what make_topics() says")
    return [TopicPartition(topic, part) for part in sorted(found)]


class Landing:
    """The rows and offsets of *topic* in the database that *url* names."""

    def __init__(self, bootstrap: str, url: str, topic: str, access: Access) -> None:
        self._bootstrap = bootstrap
        self._url = url
        self._topic = topic
        self._access = access

    async def rows(self, stock: str) -> Rows:
        """Return what is written of one stock."""
        return await self._seen_through(self._rows(stock))

    async def lag(self) -> int:
        """Return how many messages of the topic have no row yet, whichever writer's they are."""
        return await self._seen_through(self._lag())

    async def _seen_through(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return await see_through(work, within=_PATIENCE)
        except (KafkaError, TimeoutError) as error:
            where = f"kafka://{self._bootstrap} and its database"
            raise BackendUnavailableError(f"{where}, {self._topic!r}: {error!r}, ask again") from error

    async def _rows(self, stock: str) -> Rows:
        async with Database(self._url) as database:
            if not await database.has_tables():
                return Rows(0, 0, 0)
            found = await database.query(statement("rows"), (stock.encode(),))
        return Rows(*(int(one) for one in found[0]))

    async def _lag(self) -> int:
        offsets = await self._offsets()
        ends = await self._ends()  # behind the offsets: what lands meanwhile still counts
        return sum(max(0, last - offsets.get(one.partition, 0)) for one, last in ends.items())

    async def _offsets(self) -> dict[int, int]:
        async with Database(self._url) as database:
            if not await database.has_tables():
                return {}
            ask = "SELECT part, next_offset FROM aiodlock_offsets WHERE topic = %s"
            return {int(part): int(offset) for part, offset in await database.query(ask, (self._topic.encode(),))}

    async def _ends(self) -> dict[TopicPartition, int]:
        settings = {"request_timeout_ms": int(_PATIENCE * 500), "isolation_level": "read_committed"}
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, **settings, **self._access)
        try:
            await consumer.start()
            ends: dict[TopicPartition, int] = await consumer.end_offsets(await partitions_of(consumer, self._topic))
            return ends
        finally:
            await end(consumer.stop, consumer._client.close)
