"""The way into Kafka: a broker that is away or particular, and a publisher that several tasks use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from aiodlock.errors import BackendUnavailableError
from aiodlock.events import StockTaken
from aiodlock.inventory.orders import Access, OrderWriter, Publisher, make_topics
from aiodlock.inventory.orders import publisher as publishing
from aiodlock.sinks.kafka import KafkaSink
from aiodlock.testing.servers import KafkaServer, MariaDBServer, free_ports, require
from aiodlock.testing.servers.ports import HOST
from tests.integration.orders.conftest import has_told_all, rows_become, until
from tests.integration.orders.test_pipeline import message


async def is_published(publisher: Publisher, topic: str) -> bool:
    try:
        await publisher.publish(topic, [(b"k", b"v")])
    except BackendUnavailableError:
        return False
    return True


async def until_published(publisher: Publisher, topic: str) -> None:
    await until(lambda: is_published(publisher, topic))


@pytest.mark.timeout(180)
async def test_a_broker_that_was_away_in_good_order_meets_another_producer(kafka: KafkaServer, topic: str) -> None:
    """It was stopped for longer than a request may take, which can break a producer for good."""
    async with Publisher(kafka.bootstrap, patience=3.0) as publisher:
        await until_published(publisher, topic)
        before, replaced = publisher._producer, publisher.replaced
        await asyncio.to_thread(kafka.stop)
        try:
            for _ in range(2):
                with pytest.raises(BackendUnavailableError, match="not published"):
                    await publisher.publish(topic, [(b"k", b"%d" % number) for number in range(50)])
        finally:
            await asyncio.to_thread(kafka.start)
        await until_published(publisher, topic)
        assert publisher._producer is not before
        assert publisher.replaced >= replaced + 2


async def test_tasks_that_share_a_publisher_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets a producer that is not started, and a failure of one takes it from nobody else."""
    alive: list[Fake] = []

    class Fake:
        def __init__(self, **settings: object) -> None:
            self.is_started = False
            self.client = self._sender = self
            alive.append(self)

        async def start(self) -> None:
            await asyncio.sleep(0.01)
            self.is_started = True

        async def close(self) -> None:
            self.is_started = False

        async def send(self, topic: str, value: bytes, *, key: bytes) -> asyncio.Future[None]:
            if value == b"bad":
                raise OSError("refused")
            sent = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.01, self._answer, sent)
            return sent

        def _answer(self, sent: asyncio.Future[None]) -> None:
            if self.is_started and not sent.done():
                sent.set_result(None)

    monkeypatch.setattr(publishing, "AIOKafkaProducer", Fake)
    publisher = Publisher("nowhere", patience=5.0)
    values = (b"good", b"bad", b"good", b"good")
    calls = (publisher.publish("topic", [(b"k", value)]) for value in values)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in told] == [type(None), BackendUnavailableError, type(None), type(None)]
    await publisher.aclose()
    assert not any(one.is_started for one in alive)


# --- who is let in -----------------------------------------------------------------------------------------

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_shop="secret";'


class GuardedServer(KafkaServer):
    """A broker with a second door, for those who have a password."""

    def __init__(self) -> None:
        super().__init__()
        (self.guarded,) = free_ports(1)
        text = self._properties.read_text()
        for before, after in (
            (f"listeners=PLAINTEXT://{HOST}:{self.port}", f"listeners=GUARDED://{HOST}:{self.guarded},"),
            (
                f"advertised.listeners=PLAINTEXT://{HOST}:{self.port}",
                f"advertised.listeners=GUARDED://{HOST}:{self.guarded},",
            ),
        ):
            text = text.replace(f"\n{before}", f"\n{after}{before.partition('=')[2]}")
        text = text.replace("protocol.map=", "protocol.map=GUARDED:SASL_PLAINTEXT,")
        more = ("inter.broker.listener.name=PLAINTEXT", "sasl.enabled.mechanisms=PLAIN")
        login = f"listener.name.guarded.plain.sasl.jaas.config={LOGIN}"
        self._properties.write_text("\n".join((text, *more, login, "")))


@pytest.fixture
def guarded() -> Iterator[str]:
    require(KafkaServer)
    with GuardedServer() as running:
        yield f"{HOST}:{running.guarded}"


@pytest.mark.timeout(120)
async def test_a_broker_that_wants_a_password_gets_it(guarded: str, mariadb: MariaDBServer) -> None:
    """From whoever talks to it: the one who makes topics, the publisher, the sink, and the writer."""
    access: Access = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "shop",
        "sasl_plain_password": "secret",
    }
    await make_topics(guarded, "guarded", "guarded.dead-letters", patience=30.0, **access)
    async with Publisher(guarded, **access) as publisher:
        await publisher.publish("guarded", [message(1, stock="guarded"), (b"k", b"poison")])
    async with OrderWriter(guarded, mariadb.url, topic="guarded", **access) as writer:
        await rows_become(writer, "guarded", (1, 2, 0))
        assert await writer.lag() == 0
    sink = KafkaSink(guarded, topic="guarded", **access)
    async with sink:
        sink(StockTaken("sku", "o-1", 1, 0))
        await until(lambda: has_told_all(sink))
    assert sink.published == 1
    with pytest.raises(BackendUnavailableError):
        await Publisher(guarded, patience=3.0).publish("guarded", [(b"k", b"v")])
