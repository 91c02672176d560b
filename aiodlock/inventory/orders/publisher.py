"""Messages into Kafka: idempotent, on all replicas; every wait is bounded, and a producer that broke is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from aiodlock.errors import BackendUnavailableError, MissingDependencyError
from aiodlock.inventory.orders.access import Access
from aiodlock.inventory.orders.driver import end, see_through

try:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError
except ImportError as error:
    raise MissingDependencyError("Kafka", extra="kafka") from error

__all__ = ["Publisher"]


class Publisher:
    """A producer of ours, made when it is needed and again when it is broken.

    An idempotent producer can break for good (every send fails after a gap in its numbers), and one with a dead broker
    waits for ever. So a call that fails, or is not done within *patience* seconds, throws its producer away: what it
    had may or may not be in the topic, and has to be published again. Calls of several tasks take turns, so that nobody
    loses the producer under another's hands.

    Whoever makes one closes it: by ``async with``, or by `aclose`. *access*: TLS and SASL for the broker.
    """

    def __init__(self, bootstrap: str, *, patience: float = 10.0, **access: Unpack[Access]) -> None:
        self.replaced = 0
        self._bootstrap = bootstrap
        self._patience = patience
        self._access = access
        self._producer: Any = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def publish(self, topic: str, messages: Sequence[tuple[bytes, bytes]]) -> None:
        """Return when all replicas have all *messages*, given as key and value.

        Cancellation: they are in the topic or not; publish them again.
        """
        async with self._turn:
            await self._publish(topic, messages)

    async def aclose(self) -> None:
        """Stop the producer; nothing is on its way between two calls.

        Cancellation: it is stopped all the same, as far as it goes without waiting.
        """
        async with self._turn:
            await self._throw_away()

    async def _publish(self, topic: str, messages: Sequence[tuple[bytes, bytes]]) -> None:
        done = False
        try:
            async with asyncio.timeout(self._patience):
                producer = await self._ready()
                sent = [await producer.send(topic, value, key=key) for key, value in messages]
                await asyncio.gather(*sent)
            done = True
        except (KafkaError, OSError, TimeoutError) as error:
            raise BackendUnavailableError(f"kafka://{self._bootstrap}: {error!r}, {topic!r} not published") from error
        finally:
            if not done:
                self.replaced += 1
                await self._throw_away()

    async def _ready(self) -> Any:
        if self._producer is None:
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                acks="all",
                enable_idempotence=True,
                linger_ms=2,
                request_timeout_ms=int(self._patience * 1000),
                **self._access,
            )
            await see_through(self._producer.start(), within=2 * self._patience)
        return self._producer

    async def _throw_away(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # Not stop(): it waits for batches that a dead broker never takes. The connections end, and with them what was
        # sent; then the sender, and what it connected to meanwhile.
        producer._closed = True
        await end(producer.client.close, producer._sender.close, producer.client.close)
