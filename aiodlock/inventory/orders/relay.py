"""The relay: what a stock has written to its outbox goes to Kafka, at least once and in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiodlock.errors import ConfigurationError
from aiodlock.events import Event
from aiodlock.inventory.orders.keeper import Keeper
from aiodlock.inventory.orders.message import Message

if TYPE_CHECKING:
    from aiodlock.inventory.orders.publisher import Publisher
    from aiodlock.inventory.stock import SegmentedStock

__all__ = ["OutboxRelay"]

_ENDED_WITHIN = 10.0
_TTL = 5.0  # seconds after which another relay takes over from one that died
_MOST_ENTRIES = 25  # read and published in one go: up to two hundred orders each


class OutboxRelay(Keeper):
    """Publishes the outbox of *stock* to *topic*, in a task of its own, from ``async with`` to its end.

    Any number of processes may run one: they elect who works. An entry is dropped from the outbox when Kafka has it on
    all replicas; who dies before that leaves it to the next one, so a message may come twice, and never gets lost.
    Reading the outbox also sends back reservations whose time is over, *idle* seconds late at most.
    """

    def __init__(self, stock: SegmentedStock, publisher: Publisher, *, topic: str, idle: float = 0.05) -> None:
        if not stock._terms.outbox:
            raise ConfigurationError(f"stock {stock.key!r} has no outbox: make it with outbox=True")
        super().__init__(f"relay of {stock.key}", idle=idle, ended_within=_ENDED_WITHIN, on_event=self._emit)
        self.published = 0
        self._stock = stock
        self._publisher = publisher
        self._topic = topic
        self._done = ""
        self._election = stock._client.election(f"{stock.key}:outbox", ttl=_TTL)

    async def _step(self) -> bool:
        async with self._election.leadership():
            while True:
                if not await self._publish_some():
                    await asyncio.sleep(self._idle)
                self._got_on()

    async def _end(self) -> None:
        await self._publisher.aclose()

    async def _publish_some(self) -> bool:
        entries = await self._stock.read_outbox(self._done, most=_MOST_ENTRIES)
        if not entries:
            return False
        messages = [Message(self._stock.key, movement) for entry in entries for movement in entry.movements]
        await self._publisher.publish(self._topic, [(message.key, message.encode()) for message in messages])
        self._done = entries[-1].id
        self.published += len(messages)
        return True

    def _emit(self, event: Event) -> None:
        self._stock._client._at_work().emit(event)
