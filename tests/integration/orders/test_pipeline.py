"""From take to row: every accepted order is one row, whatever fails in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

import aiodlock
from aiodlock._core.stock import Entry, Move, Movement
from aiodlock.errors import BackendError, BackendUnavailableError, ConfigurationError
from aiodlock.events import Event, StockTaken, TaskFailed
from aiodlock.inventory.orders import Message, OrderWriter, OutboxRelay, Publisher, Rows, make_topics, reconcile
from aiodlock.inventory.orders.database import Database, statement
from aiodlock.inventory.orders.keeper import _FIRST_PAUSE
from aiodlock.inventory.orders.writer import _Resume, _row, _sorted
from aiodlock.sinks.kafka import KafkaSink
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer, free_ports
from tests.integration.orders.conftest import (
    Shop,
    are_settled,
    has_begun,
    has_failed,
    has_no_lag,
    has_part,
    has_published,
    has_told_all,
    has_written,
    is_empty,
    landed,
    orders_in,
    rows_become,
    until,
)

pytestmark = pytest.mark.timeout(120)  # servers that are silent for a while, on a busy machine


async def read(kafka: KafkaServer, topic: str, count: int) -> list[bytes]:
    """Return the values of a topic, once *count* different ones are there."""
    values: list[bytes] = []
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, part) for part in range(3)])
        async with asyncio.timeout(20):
            while len(set(values)) < count:
                found = await consumer.getmany(timeout_ms=200)
                values += [record.value for records in found.values() for record in records]
    finally:
        await consumer.stop()
    return values


async def in_partitions(kafka: KafkaServer, topic: str, parts: Sequence[int]) -> int:
    """Return how many messages these partitions have."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
    await consumer.start()
    try:
        return sum((await consumer.end_offsets([TopicPartition(topic, part) for part in parts])).values())
    finally:
        await consumer.stop()


@pytest.mark.parametrize("shop", ["redis", "mariadb"], indirect=True)
async def test_every_accepted_order_is_one_row(
    kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str
) -> None:
    """Taken, confirmed and returned ones; refused ones leave no trace. The outbox is empty in the end."""
    async with (
        OutboxRelay(shop.stock, kafka.bootstrap, topic=topic) as relay,
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer,
    ):
        await shop.sell(600)
        await landed(writer, shop)
        await until(lambda: is_empty(shop))
        books = await reconcile(shop.stock, writer)
        assert (books.is_settled, books.is_balanced) == (True, True), books
    assert min(relay.published, len(shop.orders)) >= 500


# --- the relay ---------------------------------------------------------------------------------------------


class Shaky(Publisher):
    """Publishes, and loses the answer: first once, then twice in a row."""

    lost = frozenset({2, 4, 5})
    calls = 0

    async def publish(self, topic: str, messages: Sequence[tuple[bytes, bytes]]) -> None:
        self.calls += 1
        await super().publish(topic, messages[: len(messages) // 2] if self.calls == 4 else messages)
        if self.calls in self.lost:
            raise BackendUnavailableError("the answer was lost")


class Hasty(OutboxRelay):
    """The broken twin: drops entries before Kafka has them."""

    async def _publish_some(self) -> bool:
        entries = await self._stock.read_outbox(self._done, most=2)
        if not entries:
            return False
        self._done = entries[-1].id
        await self._stock.read_outbox(self._done, most=1)
        messages = [Message(self._stock.key, movement) for entry in entries for movement in entry.movements]
        if self._publisher.calls == 0:  # type: ignore[attr-defined]
            self._publisher.calls = 1  # type: ignore[attr-defined]
            raise BackendUnavailableError("before anything was sent")
        await self._publisher.publish(self._topic, [(message.key, message.encode()) for message in messages])
        return True


@pytest.mark.parametrize(("kind", "is_caught"), [(OutboxRelay, False), (Hasty, True)])
async def test_a_relay_that_fails_at_any_point_loses_nothing(
    kafka: KafkaServer,
    mariadb: MariaDBServer,
    shop: Shop,
    topic: str,
    kind: type[OutboxRelay],
    is_caught: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages come twice, rows do not. A relay that drops before it has published is caught."""
    monkeypatch.setattr("aiodlock.inventory.orders.relay._MOST_ENTRIES", 2)
    monkeypatch.setattr("aiodlock.inventory.orders.relay.Publisher", Shaky)
    await shop.sell(300)
    async with (
        kind(shop.stock, kafka.bootstrap, topic=topic) as relay,
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer,
    ):
        await until(lambda: are_settled(writer, shop))
        if is_caught:
            assert await orders_in(writer, shop.stock.key) != shop.orders
            return
        await landed(writer, shop)
        assert relay.failures >= 3
        assert relay._pause == _FIRST_PAUSE  # after work that was done a failure is the first one again


async def test_a_relay_that_ends_leaves_nothing_behind_that_is_in_kafka(
    kafka: KafkaServer, shop: Shop, topic: str
) -> None:
    """The last entry is dropped by whoever published it, also if there is no next look."""

    class LooksOnce(OutboxRelay):
        async def _publish_some(self) -> bool:
            await super()._publish_some()
            return await asyncio.Event().wait()

    await shop.stock.load(5)
    await shop.stock.take(buyer="ann", order="o-1")
    async with LooksOnce(shop.stock, kafka.bootstrap, topic=topic) as relay:
        await until(lambda: has_published(relay, 1))
    assert (await shop.stock.audit()).outbox == 0


async def test_a_stock_with_the_longest_name_has_a_relay(kafka: KafkaServer, redis: RedisServer, topic: str) -> None:
    """And its leadership is nobody else's election."""
    async with aiodlock.connect(redis.url) as locks:
        stock = locks.stock(f"{topic}:".ljust(255, "k"), outbox=True)
        await stock.load(5)
        await stock.take(buyer="ann", order="o-1")
        async with (
            locks.election(stock.key).leadership(),
            OutboxRelay(stock, kafka.bootstrap, topic=topic) as relay,
        ):
            await until(lambda: has_published(relay, 1))


async def test_reservations_go_back_while_only_the_relay_looks(
    kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str
) -> None:
    """Nobody else touches the stock; the row says returned."""
    await shop.stock.load(5)
    await shop.stock.reserve(buyer="ann", order="o-1", hold_for=0.1)
    async with (
        OutboxRelay(shop.stock, kafka.bootstrap, topic=topic),
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer,
    ):
        await rows_become(writer, shop.stock.key, (1, 0, 1))
    assert (await shop.stock.remaining()).total == 5


async def test_a_broker_that_is_silent_is_noticed_and_a_new_producer_goes_on(kafka: KafkaServer, topic: str) -> None:
    """Within the patience of the publisher."""
    async with Publisher(kafka.bootstrap, patience=20.0) as publisher:
        await publisher.publish(topic, [(b"k", b"1")])
        publisher._patience = 1.0
        with kafka.paused(), pytest.raises(BackendUnavailableError, match="not published"):
            await publisher.publish(topic, [(b"k", b"2")])
        assert publisher.replaced == 1
        publisher._patience = 20.0
        await publisher.publish(topic, [(b"k", b"3")])
    assert {b"1", b"3"} <= set(await read(kafka, topic, 2)) <= {b"1", b"2", b"3"}


async def test_a_stock_without_an_outbox_is_refused(shop: Shop) -> None:
    plain = shop.stock._client.stock("plain")
    with pytest.raises(ConfigurationError, match="outbox=True"):
        OutboxRelay(plain, "127.0.0.1:1", topic="orders")


# --- the writer --------------------------------------------------------------------------------------------


def message(number: int, move: Move = Move.TAKEN, stock: str = "sku") -> tuple[bytes, bytes]:
    one = Message(stock, Movement(move, f"o-{number}", f"b-{number}", 2, 1))
    return one.key, one.encode()


async def test_duplicates_and_late_movements_change_nothing(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    """Three times the same, and a taken that comes after its returned."""
    publisher = Publisher(kafka.bootstrap)
    await publisher.publish(topic, [message(n, stock=topic) for n in (1, 2, 1, 1, 2)])
    await publisher.publish(topic, [message(2, Move.RETURNED, topic), message(2, Move.TAKEN, topic)])
    await publisher.aclose()
    async with OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer:
        await until(lambda: has_written(writer, 7))
        await rows_become(writer, topic, (2, 2, 2))


async def test_poison_goes_to_the_dead_letters_and_the_rest_goes_on(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    publisher = Publisher(kafka.bootstrap)
    bad = [b"", b"{}", b"\xff", b'{"stock": "s", "move": "sold"}', b"[1]", b"[" * 100_000]
    good = message(3, stock=topic)[1]
    bad += [good.replace(b'"o-3"', name) for name in (b'"\\ud800"', b"3", b'"' + b"x" * 256 + b'"')]
    bad += [good.replace(b'"quantity": 2', b'"quantity": ' + number) for number in (b"-1", b"1.5", b"4294967296")]
    await publisher.publish(
        topic, [message(1, stock=topic), *((b"k", value) for value in bad), message(2, stock=topic)]
    )
    await publisher.aclose()
    async with OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer:
        await rows_become(writer, topic, (2, 4, 0))
        # At least once each: a batch that was not committed is read, and put there, again.
        assert set(await read(kafka, f"{topic}.dead-letters", len(bad))) == set(bad)
        assert writer.poisoned >= len(bad)


async def test_poison_too_long_for_the_dead_letters_is_cut(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    """Packed tightly a producer may send what nobody can publish unpacked; the others do not wait behind it."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, compression_type="gzip", max_request_size=4_000_000)
    await producer.start()
    await producer.send_and_wait(topic, b"x" * 2_000_000, key=b"y" * 1_000_000, partition=0)
    key, value = message(1, stock=topic)
    await producer.send_and_wait(topic, value, key=key, partition=0)
    await producer.stop()
    async with OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer:
        await rows_become(writer, topic, (1, 2, 0))
        (letter,) = set(await read(kafka, f"{topic}.dead-letters", 1))
    assert 100_000 < len(letter) < 1_000_000
    assert set(letter) == set(b"x")


class OffsetFirst(OrderWriter):
    """The broken twin: moves on before the rows are written."""

    async def _write(self, found: Any) -> None:
        for partition, records in found.items():
            await self._move_on(partition, records[-1].offset + 1)
        for partition in found:
            self._next[partition] = await self._offset_of(partition)
        await super()._write({})
        orders, _ = _sorted(record for records in found.values() for record in records)
        await self._database.run_many(statement("order"), [_row(one) for one in orders])


ALL = {f"o-{number}": False for number in range(500)}


async def publish_all(kafka: KafkaServer, topic: str) -> None:
    async with Publisher(kafka.bootstrap) as publisher:
        await publisher.publish(topic, [message(n, stock=topic) for n in range(500)])


@pytest.mark.parametrize("point", ["before the rows", "between the rows and their commit"])
@pytest.mark.parametrize(("kind", "is_caught"), [(OrderWriter, False), (OffsetFirst, True)])
async def test_a_database_that_kills_connections_loses_no_row(
    kafka: KafkaServer,
    mariadb: MariaDBServer,
    topic: str,
    kind: type[OrderWriter],
    is_caught: bool,
    point: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection dies at that point, several times; who moves the offset first is caught."""
    events, run_many, deaths = list[Event](), Database.run_many, iter(range(3))
    await publish_all(kafka, topic)
    monkeypatch.setattr("aiodlock.inventory.orders.writer._MOST_RECORDS", 100)

    async def kill(own: int) -> None:
        async with Database(mariadb.url) as administrator:
            await administrator.run(f"KILL CONNECTION {own}")

    async def killed(self: Database, statement: str, rows: Sequence[Sequence[object]]) -> None:
        dies = next(deaths, None) is not None
        if dies and (point == "before the rows" or is_caught):  # the twin has no commit behind its rows
            await kill(self.session)
        await run_many(self, statement, rows)
        if dies:
            await kill(self.session)

    monkeypatch.setattr(Database, "run_many", killed)
    async with kind(kafka.bootstrap, mariadb.url, topic=topic, on_event=events.append) as writer:
        await until(lambda: has_no_lag(writer))
        assert (await orders_in(writer, topic) == ALL) is not is_caught
    assert writer.failures >= 3
    assert all(isinstance(event, TaskFailed) for event in events)


@pytest.mark.parametrize("harm", ["drop_request", "drop_reply"])
async def test_a_commit_without_an_answer_is_one_transaction_or_none(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Done or not, nobody knows: the offset says where to go on, and each row is there once."""
    await publish_all(kafka, topic)
    monkeypatch.setattr("aiodlock.inventory.orders.writer._MOST_RECORDS", 100)
    with FaultProxy(mariadb.port) as proxy:
        rule = getattr(proxy, harm)(match=b"COMMIT", times=3)
        url = mariadb.url.replace(str(mariadb.port), str(proxy.port))
        async with OrderWriter(kafka.bootstrap, url, topic=topic) as writer:
            await until(lambda: has_no_lag(writer))
            assert await writer.rows(topic) == Rows(500, 1000, 0)
            assert await orders_in(writer, topic) == ALL
    assert rule.done == 3
    assert writer.failures >= 3


async def test_a_database_that_falls_silent_while_offsets_are_read_costs_time_only(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver waits for our listener without an end; the writer does not."""
    offset_of, is_silent, is_told = OrderWriter._offset_of, asyncio.Event(), asyncio.Event()

    async def ask_in_silence(self: OrderWriter, partition: TopicPartition) -> int:
        if not is_silent.is_set():
            is_silent.set()
            mariadb.pause()
        return await offset_of(self, partition)

    def hear(event: Event) -> None:
        if is_silent.is_set():
            is_told.set()

    monkeypatch.setattr("aiodlock.inventory.orders.writer._PATIENCE", 5.0)
    monkeypatch.setattr(OrderWriter, "_offset_of", ask_in_silence)
    async with Publisher(kafka.bootstrap) as publisher:
        await publisher.publish(topic, [message(n, stock=topic) for n in range(10)])
    async with OrderWriter(kafka.bootstrap, mariadb.url, topic=topic, on_event=hear) as writer:
        try:
            async with asyncio.timeout(25):
                await is_told.wait()
        finally:
            mariadb.resume()
        await rows_become(writer, topic, (10, 20, 0))


async def test_a_cancel_does_not_enter_the_driver_of_the_database(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting rows is seen through, however often it is cancelled, and the cancel comes out at the end."""
    torn, opened, open_ = list[BaseException](), asyncio.Event(), Database.open

    async def watched(self: Database) -> None:
        opened.set()
        try:
            await open_(self)
        except BaseException as error:
            torn.append(error)
            raise

    monkeypatch.setattr(Database, "open", watched)
    with mariadb.paused():
        counting = asyncio.create_task(OrderWriter(kafka.bootstrap, mariadb.url, topic=topic).rows(topic))
        await opened.wait()
        for _ in range(3):
            counting.cancel()
            await asyncio.sleep(0)
        assert not counting.done()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert torn == []


async def test_a_database_without_our_tables_has_no_rows(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    """The writer makes them when it starts; whoever counts before that sees none."""
    async with Database(mariadb.url) as database:
        await database.run("CREATE DATABASE IF NOT EXISTS empty")
    empty = mariadb.url.replace(f"/{mariadb.database}", "/empty")
    assert await OrderWriter(kafka.bootstrap, empty, topic=topic).rows(topic) == Rows(0, 0, 0)


async def test_what_the_database_says_is_told_as_ours(kafka: KafkaServer, mariadb: MariaDBServer, topic: str) -> None:
    """A server that is away, and a statement it does not like; with the address, without the password."""
    (port,) = free_ports(1)
    away = OrderWriter(kafka.bootstrap, f"mysql://ann:secret@127.0.0.1:{port}/shop", topic=topic)
    with pytest.raises(BackendUnavailableError, match=f"mysql://127.0.0.1:{port}: ") as told:
        await away.rows(topic)
    assert "secret" not in str(told.value)
    async with Database(mariadb.url) as database:
        with pytest.raises(BackendError, match="no_such_table"):
            await database.query("SELECT * FROM no_such_table")


@pytest.mark.parametrize("url", ["", "mysql://127.0.0.1", "redis://127.0.0.1/0", "mysql://u:secret@h:x/db"])
def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    """Before any I/O, and without its password."""
    with pytest.raises(ConfigurationError, match="give mysql://") as told:
        Database(url)
    assert "secret" not in str(told.value)


async def test_writers_that_do_not_know_of_each_other_write_each_row_once(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    """Two groups, so that both read everything: whoever is behind the offset writes nothing and reads it again."""
    async with (
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic, group=f"{topic}-a") as one,
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic, group=f"{topic}-b"),
    ):
        publisher = Publisher(kafka.bootstrap)
        for start in range(0, 300, 50):
            await publisher.publish(topic, [message(n, stock=topic) for n in range(start, start + 50)])
        await publisher.aclose()
        await rows_become(one, topic, (300, 600, 0))
        await until(lambda: has_no_lag(one))
        async with Database(mariadb.url) as database:
            ask = "SELECT SUM(next_offset) FROM aiodlock_offsets WHERE topic = %s"
            assert int((await database.query(ask, (topic.encode(),)))[0][0]) == 300


async def test_writers_of_one_group_share_the_topic_while_they_come_and_go(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    """Partitions change hands in the middle of the work; each row is written once."""

    def new_writer() -> OrderWriter:
        return OrderWriter(kafka.bootstrap, mariadb.url, topic=topic, group=topic)

    async def publish() -> None:
        async with Publisher(kafka.bootstrap) as publisher:
            for start in range(0, 600, 20):
                await publisher.publish(topic, [message(n, stock=topic) for n in range(start, start + 20)])

    async with new_writer() as first:
        await until(lambda: has_part(first))
        publishing = asyncio.create_task(publish())
        async with new_writer() as second:
            await until(lambda: has_part(second))
            await publishing
        await rows_become(first, topic, (600, 1200, 0))
        async with Database(mariadb.url) as database:
            ask = "SELECT SUM(next_offset) FROM aiodlock_offsets WHERE topic = %s"
            assert int((await database.query(ask, (topic.encode(),)))[0][0]) == 600


async def test_a_partition_that_was_taken_away_is_not_gone_on_with(
    kafka: KafkaServer, mariadb: MariaDBServer, topic: str
) -> None:
    """Also if that happens while its offset is moved on: whoever has it next may be further."""
    writer, partition = OrderWriter(kafka.bootstrap, mariadb.url, topic=topic), TopicPartition(topic, 0)

    class Moving:
        async def run(self, *statement: object) -> int:
            await _Resume(writer).on_partitions_revoked([partition])
            return 1

    writer._next[partition], writer._database = 5, Moving()  # type: ignore[assignment]
    await writer._move_on(partition, 9)
    assert not writer.has_part


async def test_a_topic_that_is_missing_is_told_and_waited_for(kafka: KafkaServer, mariadb: MariaDBServer) -> None:
    """By the writer, and by whoever asks how much is on its way."""
    events: list[Event] = []

    async def has_told() -> bool:
        return bool(events)

    async with OrderWriter(kafka.bootstrap, mariadb.url, topic="not-yet", on_event=events.append) as writer:
        await until(has_told)
        with pytest.raises(BackendUnavailableError, match="topic 'not-yet' is not there"):
            await writer.lag()
        await make_topics(kafka.bootstrap, "not-yet")
        await until(lambda: has_part(writer))
    first = events[0]
    assert isinstance(first, TaskFailed)
    assert "topic 'not-yet' is not there" in first.error


# --- the books ---------------------------------------------------------------------------------------------


async def test_what_is_on_its_way_to_any_writer_is_counted(
    kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str
) -> None:
    """Two share the topic, and one of them does not get on: the other does not call the books settled."""

    class Stuck(OrderWriter):
        async def _write(self, found: Any) -> None:
            await asyncio.Event().wait()

    await shop.stock.load(100)
    async with (
        OrderWriter(kafka.bootstrap, mariadb.url, topic=topic, group=topic) as good,
        Stuck(kafka.bootstrap, mariadb.url, topic=topic, group=topic) as stuck,
    ):

        async def share() -> bool:
            return {*good._next} | {*stuck._next} == parts and good.has_part and stuck.has_part

        parts = {TopicPartition(topic, part) for part in range(3)}
        await until(share)
        theirs = [one.partition for one in stuck._next]
        async with Publisher(kafka.bootstrap) as publisher:
            sent = [message(n, stock=shop.stock.key) for n in range(60)]
            await publisher.publish(topic, sent)
        behind = await in_partitions(kafka, topic, theirs)
        assert 0 < behind < 60

        async def only_theirs_is_left() -> bool:
            return await good.lag() == behind

        await until(only_theirs_is_left)
        books = await reconcile(shop.stock, good)
        assert (books.in_topic, books.is_settled) == (behind, False)
        assert await stuck.lag() == behind
    idle = OrderWriter(kafka.bootstrap, mariadb.url, topic=topic)  # without a part of the topic, or before it has one
    assert (await reconcile(shop.stock, idle)).in_topic == behind


async def test_a_long_outbox_is_counted_where_it_is(shop: Shop) -> None:
    """Not read: neither all at once nor in part."""
    await shop.sell(300)
    entries = await shop.stock.read_outbox(most=1000)
    assert (await shop.stock.audit()).outbox == len(entries) > 1
    await shop.stock.read_outbox(entries[0].id, most=1)
    assert (await shop.stock.audit()).outbox == len(entries) - 1


async def test_books_that_do_not_agree_are_told(
    kafka: KafkaServer, mariadb: MariaDBServer, shop: Shop, topic: str
) -> None:
    """What is in the outbox only is on its way; a row that is gone is missed."""
    await shop.stock.load(5)
    await shop.stock.take(buyer="ann", order="o-1", quantity=2)
    async with OrderWriter(kafka.bootstrap, mariadb.url, topic=topic) as writer:
        await until(lambda: has_part(writer))
        books = await reconcile(shop.stock, writer)
        assert (books.in_outbox, books.is_settled, books.is_balanced) == (1, False, False)
        async with OutboxRelay(shop.stock, kafka.bootstrap, topic=topic):
            await rows_become(writer, shop.stock.key, (1, 2, 0))
            await until(lambda: is_empty(shop))
        assert (await reconcile(shop.stock, writer)).is_balanced
        async with Database(mariadb.url) as database:
            await database.run("DELETE FROM aiodlock_orders WHERE stock = %s", (shop.stock.key.encode(),))
        books = await reconcile(shop.stock, writer)
        assert (books.is_settled, books.is_balanced) == (True, False)


# --- events ------------------------------------------------------------------------------------------------


async def test_events_of_locks_and_stock_reach_kafka_in_order_per_key(
    kafka: KafkaServer, redis: RedisServer, topic: str
) -> None:
    """Keyed by key; a broker that is away for a while costs nothing but time."""
    sink = KafkaSink(kafka.bootstrap, topic=topic, patience=5.0)
    async with sink, aiodlock.connect(redis.url, on_event=sink) as locks:
        for _ in range(3):
            async with locks.lock(topic):
                pass
        stock = locks.stock(f"{topic}-stock")
        await stock.load(2)
        await stock.take(buyer="ann", order="o-1")
        await until(lambda: has_told_all(sink))
        with kafka.paused():
            await stock.put_back(buyer="ann", order="o-1")
            await until(lambda: has_failed(sink))
        await until(lambda: has_told_all(sink))
    told = [json.loads(value) for value in await read(kafka, topic, 8)]
    names = {key: [one["name"] for one in told if one["key"] == key] for key in (topic, stock.key)}
    assert names[topic] == ["lock.acquired", "lock.released"] * 3
    assert [*dict.fromkeys(names[stock.key])] == ["stock.taken", "stock.returned"]
    assert sink.dropped == 0


async def test_events_under_way_are_not_dropped(kafka: KafkaServer, topic: str) -> None:
    """What is told is published or dropped, and counted once."""
    sink = KafkaSink(kafka.bootstrap, topic=topic, bound=3)
    for number in range(3):
        sink(StockTaken("sku", f"o-{number}", 1, 0))
    async with sink:
        with kafka.paused():
            await until(lambda: has_begun(sink))
            for number in range(3, 8):
                sink(StockTaken("sku", f"o-{number}", 1, 0))
    orders = [json.loads(value)["order"] for value in await read(kafka, topic, 6)]
    assert [*dict.fromkeys(orders)] == ["o-0", "o-1", "o-2", "o-5", "o-6", "o-7"]
    assert (sink.published, sink.dropped, sink.waiting) == (6, 2, 0)


def test_a_sink_drops_the_oldest_and_counts() -> None:
    """Without a broker, and without waiting for one."""
    sink = KafkaSink("127.0.0.1:1", topic="events", bound=3)
    for number in range(5):
        sink(StockTaken("sku", f"o-{number}", 1, 0))
    assert sink.dropped == 2
    assert [json.loads(value)["order"] for _, value in sink._events] == ["o-2", "o-3", "o-4"]


async def test_what_a_sink_could_not_tell_at_its_end_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the broker behaves: here it says nothing at all."""

    async def say_nothing(self: Publisher, *_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Publisher, "publish", say_nothing)
    sink = KafkaSink("127.0.0.1:1", topic="events", patience=0.1)
    async with sink:
        for number in range(3):
            sink(StockTaken("sku", f"o-{number}", 1, 0))
        await until(lambda: has_begun(sink))
        sink(StockTaken("sku", "o-3", 1, 0))
    assert (sink.published, sink.dropped, sink.waiting) == (0, 4, 0)


def test_a_message_survives_its_way() -> None:
    """Encoded and decoded it is the same, whatever it is called."""
    one = Message("货架", Movement(Move.RESERVED, "o-'1", "安", 3, 15))
    assert Message.decode(one.encode()) == one
    assert Entry("1", (one.movement,)).movements[0].order.encode() == one.key
