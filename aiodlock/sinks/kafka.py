"""Events into Kafka, off the lock path: keyed by lock key, so that the order per key is kept.

::

    sink = KafkaSink("127.0.0.1:9092", topic="lock-events")
    async with sink, aiodlock.connect(url, on_event=sink) as locks: ...
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections import deque
from types import TracebackType
from typing import Self

from aiodlock._core.cancel import finish
from aiodlock.events import Event
from aiodlock.inventory.orders.keeper import Keeper
from aiodlock.inventory.orders.publisher import Publisher
from aiodlock.policy import check_count

__all__ = ["KafkaSink"]

_MOST_IN_CALL = 1000
_ENDED_WITHIN = 30.0


class KafkaSink:
    """Takes events without waiting, and publishes them in a task of its own from ``async with`` to its end.

    Each is JSON: its `name`, its facts and the time `at` which it was told, in seconds since 1970. Beyond *bound*
    events that wait, the oldest are `dropped`. A broker that is away is tried again; an event may then come twice.
    """

    def __init__(self, bootstrap: str, *, topic: str, bound: int = 10_000, patience: float = 10.0) -> None:
        self.published = 0
        self.dropped = 0
        self._topic = topic
        self._events: deque[tuple[bytes, bytes]] = deque()
        self._bound = check_count("bound", bound)
        self._publisher = Publisher(bootstrap, patience=patience)
        self._keeper = Keeper(f"events to {topic}", self._step, idle=0.05)

    def __call__(self, event: Event) -> None:
        """Take an event; what `connect(on_event=)` wants."""
        facts = {"name": event.name, "at": time.time(), **dataclasses.asdict(event)}
        self._events.append((str(facts.get("key", "")).encode(), json.dumps(facts).encode()))
        if len(self._events) > self._bound:
            self._events.popleft()
            self.dropped += 1

    async def __aenter__(self) -> Self:
        self._keeper.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(asyncio.ensure_future(self._end()), within=_ENDED_WITHIN)

    async def _end(self) -> None:
        await self._keeper.aclose()
        try:
            while self._events:  # what was told last, if the broker is well
                await self._step()
        except Exception:
            self.dropped += len(self._events)
        await self._publisher.aclose()

    @property
    def failures(self) -> int:
        """How often publishing had to begin again."""
        return self._keeper.failures

    async def _step(self) -> bool:
        some = [self._events[place] for place in range(min(len(self._events), _MOST_IN_CALL))]
        if not some:
            return False
        dropped = self.dropped
        await self._publisher.publish(self._topic, some)
        self.published += len(some)
        for _ in range(len(some) - (self.dropped - dropped)):
            self._events.popleft()
        return bool(self._events)
