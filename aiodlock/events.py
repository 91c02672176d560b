"""What happened, as frozen facts, and the bounded queue that carries them off the lock path."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

__all__ = [
    "BackendChanged",
    "BackendFailed",
    "DegradationBegun",
    "DegradationEnded",
    "Event",
    "EventQueue",
    "EventSink",
    "EventsDropped",
    "HoldAbandoned",
    "HoldLost",
    "HoldRevoked",
    "LeaveUnconfirmed",
    "LockAcquired",
    "LockReleased",
    "SetupDoubted",
    "SizeDiffered",
    "StockReturned",
    "StockTaken",
    "TaskFailed",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; `name` reads noun, dot, past participle."""

    name: ClassVar[str] = "event.happened"


@dataclass(frozen=True, slots=True)
class LockAcquired(Event):
    """A task is inside."""

    name: ClassVar[str] = "lock.acquired"
    kind: str
    key: str
    fence: int


@dataclass(frozen=True, slots=True)
class LockReleased(Event):
    """A task is outside again, after `held` seconds."""

    name: ClassVar[str] = "lock.released"
    kind: str
    key: str
    fence: int
    held: float


@dataclass(frozen=True, slots=True)
class HoldLost(Event):
    """A hold is lost; others may be inside."""

    name: ClassVar[str] = "hold.lost"
    kind: str
    key: str
    fence: int
    reason: str


@dataclass(frozen=True, slots=True)
class HoldAbandoned(Event):
    """A hold that nobody can release: its tasks are done, or it was garbage-collected. It is renewed no more."""

    name: ClassVar[str] = "hold.abandoned"
    kind: str
    key: str
    fence: int


@dataclass(frozen=True, slots=True)
class HoldRevoked(Event):
    """Somebody asked the holder to let go."""

    name: ClassVar[str] = "hold.revoked"
    kind: str
    key: str
    fence: int
    reason: str


@dataclass(frozen=True, slots=True)
class SizeDiffered(Event):
    """The line has another size than this client asked for: it was resized, or others use another number."""

    name: ClassVar[str] = "size.differed"
    kind: str
    key: str
    asked: int
    found: int


@dataclass(frozen=True, slots=True)
class SetupDoubted(Event):
    """The server is set up in a way that does not suit locks: what was looked at, what was found, what to do."""

    name: ClassVar[str] = "setup.doubted"
    what: str
    found: str
    advice: str
    severe: bool


@dataclass(frozen=True, slots=True)
class StockTaken(Event):
    """An order has its articles; told each time that it was asked for. What happened once is in the outbox."""

    name: ClassVar[str] = "stock.taken"
    key: str
    order: str
    quantity: int
    segment: int


@dataclass(frozen=True, slots=True)
class StockReturned(Event):
    """An order was put back; told each time that it was asked for. What happened once is in the outbox."""

    name: ClassVar[str] = "stock.returned"
    key: str
    order: str
    quantity: int


@dataclass(frozen=True, slots=True)
class LeaveUnconfirmed(Event):
    """The server did not confirm that a ticket left; the ticket ends by its life."""

    name: ClassVar[str] = "ticket.unconfirmed"
    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class BackendChanged(Event):
    """The session with the server is now `state`: connected, suspended (holds are in danger) or lost."""

    name: ClassVar[str] = "backend.changed"
    state: str


@dataclass(frozen=True, slots=True)
class DegradationBegun(Event):
    """The server at `address` was unreachable for one ttl: new holds are those of `fallback`, until it is back."""

    name: ClassVar[str] = "degradation.begun"
    address: str
    fallback: str


@dataclass(frozen=True, slots=True)
class DegradationEnded(Event):
    """The server at `address` is back: new holds are its own again; each of `fallback` is left when it is released."""

    name: ClassVar[str] = "degradation.ended"
    address: str
    fallback: str


@dataclass(frozen=True, slots=True)
class BackendFailed(Event):
    """A verb had no answer; it is repeated while that makes sense."""

    name: ClassVar[str] = "backend.failed"
    error: str


@dataclass(frozen=True, slots=True)
class TaskFailed(Event):
    """A background task or a user's callback raised."""

    name: ClassVar[str] = "task.failed"
    what: str
    error: str


@dataclass(frozen=True, slots=True)
class EventsDropped(Event):
    """So many events came faster than they could be told, and were not."""

    name: ClassVar[str] = "events.dropped"
    count: int


EventSink: TypeAlias = Callable[[Event], None]

_LARGEST_QUEUE = 10_000


class EventQueue:
    """Takes events without waiting, hands them to the sink from the loop, drops beyond its bound and tells how many."""

    def __init__(self, sink: EventSink, *, bound: int = _LARGEST_QUEUE) -> None:
        self.dropped = 0
        self.failed = 0
        self._sink = sink
        self._bound = bound
        self._events: deque[Event] = deque()
        self._scheduled = False

    def put(self, event: Event) -> None:
        if len(self._events) >= self._bound:
            self.dropped += 1
            return
        self._events.append(event)
        if not self._scheduled:
            try:
                asyncio.get_running_loop().call_soon(self.flush)
            except RuntimeError:
                return  # told by the garbage collector when no loop ran: the next event takes it along
            self._scheduled = True

    def flush(self) -> None:
        """Hand over everything queued so far."""
        self._scheduled = False
        while self._events:
            self._tell(self._events.popleft())
        if self.dropped:
            count, self.dropped = self.dropped, 0
            self._tell(EventsDropped(count))

    def _tell(self, event: Event) -> None:
        try:
            self._sink(event)
        except Exception:  # a sink can fail without a lock noticing
            self.failed += 1
