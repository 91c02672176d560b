"""Events into Kafka, off the lock path: keyed by lock key, so that the order per key is kept.

::

    sink = KafkaSink("127.0.0.1:9092", topic="lock-events")
    async with sink, aiodlock.connect(url, on_event=sink) as locks: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from collections import deque
from typing import Unpack

from aiodlock.events import Event
from aiodlock.inventory.orders.access import Access
from aiodlock.inventory.orders.keeper import Keeper
from aiodlock.inventory.orders.publisher import Publisher
from aiodlock.policy import check_count

__all__ = ["KafkaSink"]

_IDLE = 0.05
_MOST_IN_CALL = 1000
_LAST_TRIES = 3
_TORN_WITHIN = 20.0  # seconds that a publisher takes at most to let go of a broker


class KafkaSink(Keeper):
    """Takes events without waiting, and publishes them in a task of its own from ``async with`` to its end.

    Each is JSON: its `name`, its facts and the time `at` which it was told, in seconds since 1970. Beyond *bound*
    events that wait, the oldest are `dropped`. A broker that is away is tried again; an event may then come twice. At
    the end three times *patience* are left for what waits, and the rest is `dropped`. *access*: TLS and SASL.
    """

    def __init__(
        self, bootstrap: str, *, topic: str, bound: int = 10_000, patience: float = 10.0, **access: Unpack[Access]
    ) -> None:
        self._last_tries_within = _LAST_TRIES * patience
        # A try that is called off sees its connection through first, for two more.
        ended_within = self._last_tries_within + 2 * patience + 2 * _TORN_WITHIN
        super().__init__(f"events to {topic}", idle=_IDLE, ended_within=ended_within)
        self.published = 0
        self.dropped = 0
        self._topic = topic
        self._events: deque[tuple[bytes, bytes]] = deque()
        self._under_way: list[tuple[bytes, bytes]] = []
        self._bound = check_count("bound", bound)
        self._publisher = Publisher(bootstrap, patience=patience, **access)

    def __call__(self, event: Event) -> None:
        """Take an event; what `connect(on_event=)` wants."""
        facts = {"name": event.name, "at": time.time(), **dataclasses.asdict(event)}
        self._events.append((str(facts.get("key", "")).encode(), json.dumps(facts).encode()))
        if len(self._events) > self._bound:
            self._events.popleft()
            self.dropped += 1

    @property
    def waiting(self) -> int:
        """How many events were taken and are not in Kafka yet."""
        return len(self._events) + len(self._under_way)

    async def _step(self) -> bool:
        if not self._under_way:
            self._under_way = [self._events.popleft() for _ in range(min(len(self._events), _MOST_IN_CALL))]
        if not self._under_way:
            return False
        await self._publisher.publish(self._topic, self._under_way)
        self.published += len(self._under_way)
        self._under_way = []
        return bool(self._events)

    async def _end(self) -> None:
        """Publish what was told last; a broker that is not well gets three tries."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._last_tries_within):
                await self._publish_the_last()
        self.dropped += self.waiting
        self._events.clear()
        self._under_way = []
        await self._publisher.aclose()

    async def _publish_the_last(self) -> None:
        for _ in range(_LAST_TRIES):
            with contextlib.suppress(Exception):
                while self.waiting:
                    await self._step()
