"""The relay: what a stock has written to its outbox goes to Kafka, at least once and in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Unpack

from aiodlock.errors import ConfigurationError
from aiodlock.events import Event
from aiodlock.inventory.orders.access import Access
from aiodlock.inventory.orders.driver import end
from aiodlock.inventory.orders.keeper import Keeper
from aiodlock.inventory.orders.message import Message
from aiodlock.inventory.orders.publisher import Publisher
from aiodlock.locks.lock import Lock

if TYPE_CHECKING:
    from aiodlock.inventory.stock import SegmentedStock

__all__ = ["OutboxRelay"]

_ENDED_WITHIN = 20.0
_TTL = 5.0  # seconds after which another relay takes over from one that died
_MOST_ENTRIES = 25  # read and published in one go: up to two hundred orders each


class OutboxRelay(Keeper):
    """Publishes the outbox of *stock* to *topic*, through a publisher of its own, from ``async with`` to its end.

    Any number of processes may run one: they elect who works. An entry is dropped from the outbox when Kafka has it on
    all replicas; who dies before that leaves it to the next one, so a message may come twice, and never gets lost.
    Reading the outbox also sends back reservations whose time is over, *idle* seconds late at most. *patience* is that
    of the publisher; *access*: TLS and SASL for the broker.
    """

    def __init__(
        self,
        stock: SegmentedStock,
        bootstrap: str,
        *,
        topic: str,
        idle: float = 0.05,
        patience: float = 10.0,
        **access: Unpack[Access],
    ) -> None:
        if not stock._terms.outbox:
            raise ConfigurationError(f"stock {stock.key!r} has no outbox: make it with outbox=True")
        super().__init__(f"relay of {stock.key}", idle=idle, ended_within=_ENDED_WITHIN, on_event=self._emit)
        self.published = 0
        self._stock = stock
        self._publisher = Publisher(bootstrap, patience=patience, **access)
        self._topic = topic
        self._done = ""  # the last entry that is in Kafka and still in the outbox
        self._leadership = Lock(stock._client, stock.key, stock._client._policy({"ttl": _TTL}), kind="relay")

    async def _step(self) -> bool:
        async with self._leadership:
            while True:
                if not await self._publish_some():
                    await asyncio.sleep(self._idle)
                self._got_on()

    async def _end(self) -> None:
        await end(self._drop)
        await self._publisher.aclose()

    async def _drop(self) -> None:
        """Drop what is in Kafka: safe for whoever published it, the leader or not."""
        if self._done:
            await self._stock.read_outbox(self._done, most=1)

    async def _publish_some(self) -> bool:
        entries = await self._stock.read_outbox(self._done, most=_MOST_ENTRIES)
        self._done = ""
        if not entries:
            return False
        messages = [Message(self._stock.key, movement) for entry in entries for movement in entry.movements]
        await self._publisher.publish(self._topic, [(message.key, message.encode()) for message in messages])
        self._done = entries[-1].id
        self.published += len(messages)
        return True

    def _emit(self, event: Event) -> None:
        self._stock._client._at_work().emit(event)
