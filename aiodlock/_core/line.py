"""The one idea: a line of tickets.

Every synchronizer is a line with a size. A caller takes a ticket with a weight, stands in line, and is
inside when its turn comes:

    The front of the line is inside while the weights fit the size.
    Nobody overtakes. Who is inside stays inside.

This module holds the facts that client and server exchange, and that rule as a pure function. Every backend
mirrors the rule; property tests compare them with it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, NewType, Self, TypeAlias

__all__ = [
    "WAITING_LIFE",
    "Answer",
    "AskedToGo",
    "Call",
    "Called",
    "CompanyCame",
    "Gone",
    "GoneWhy",
    "Inside",
    "LineId",
    "Opened",
    "Reconnected",
    "Row",
    "StateChanged",
    "Ticket",
    "TicketGone",
    "TicketId",
    "Waiting",
    "Wish",
    "admit",
    "deadline_of",
    "tombstone_life",
    "waiting_life",
]

TicketId = NewType("TicketId", str)

WAITING_LIFE = 5.0  # seconds a waiting ticket lives unless renewed, so that a dead waiter costs seconds, not a ttl


class LineId(NamedTuple):
    """Which line: the kind of synchronizer and the user's key."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True, eq=False)  # told apart by identity: backends keep what they make of one by it
class Wish:
    """What a ticket is taken for; all tickets of a cohort have the same one."""

    line: LineId
    weight: int = 1
    size: int = 1
    ttl: float = 30.0
    owner: str = ""


@dataclass(slots=True, unsafe_hash=True)  # facts as well; frozen, making one would cost three times as much
class Ticket:
    """One stand in a line. The id is chosen by the client before the first send and never used for a second stand."""

    wish: Wish
    id: TicketId

    @classmethod
    def of(
        cls, line: LineId, id: TicketId, *, weight: int = 1, size: int = 1, ttl: float = 30.0, owner: str = ""
    ) -> Self:
        """Return a ticket with a wish of its own."""
        return cls(Wish(line, weight, size, ttl, owner), id)

    def wishing(self, **changes: object) -> Self:
        """Return the same ticket with another wish."""
        return type(self)(replace(self.wish, **changes), self.id)  # type: ignore[arg-type]

    @property
    def line(self) -> LineId:
        return self.wish.line

    @property
    def weight(self) -> int:
        return self.wish.weight

    @property
    def size(self) -> int:
        return self.wish.size

    @property
    def ttl(self) -> float:
        return self.wish.ttl

    @property
    def owner(self) -> str:
        return self.wish.owner

    @property
    def waiting_life(self) -> float:
        return waiting_life(self.ttl)


# --- answers: what the server says to join and renew -------------------------------------------------------
# `via` numbers the connection an answer or call came over; it grows with every reconnect.


@dataclass(slots=True, unsafe_hash=True)
class Inside:
    """The ticket is inside for `remaining` seconds more, by the server's clock."""

    epoch: int
    remaining: float
    company: bool = False
    size: int = 0  # the line's, which may differ from the ticket's; 0: not told
    via: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The ticket stands in line for its waiting life anew; without a call, look again after `look_again` seconds."""

    ahead: int  # at most so many tickets stand before it
    look_again: float
    last: int  # the line's last epoch: a call that counts has a larger one
    holder: str | None = None
    size: int = 0
    via: int = 0


class GoneWhy(enum.Enum):
    BURIED = "left before it arrived"
    EXPIRED = "its life ended on the server"
    TOO_HEAVY = "heavier than its line"
    BUSY = "not free, and not to queue"
    FULL = "the line has too many tickets"
    UNCONFIRMED = "too few replicas have it"  # it may stand, and has to leave


@dataclass(frozen=True, slots=True)
class Gone:
    """The ticket is not in line, and this id never will be again."""

    why: GoneWhy = GoneWhy.EXPIRED
    holder: str | None = None
    via: int = 0


Answer: TypeAlias = Inside | Waiting | Gone

# --- calls: what the server says by itself -----------------------------------------------------------------


@dataclass(slots=True, unsafe_hash=True)
class Called:
    """A waiting ticket is now inside."""

    line: LineId
    id: TicketId
    epoch: int
    company: bool = False
    via: int = 0


@dataclass(frozen=True, slots=True)
class CompanyCame:
    """Somebody waits behind this inside ticket."""

    id: TicketId
    via: int = 0


@dataclass(frozen=True, slots=True)
class TicketGone:
    """Somebody else made this ticket leave."""

    id: TicketId
    via: int = 0


@dataclass(frozen=True, slots=True)
class AskedToGo:
    """Somebody asks the holder of this ticket to let go."""

    id: TicketId
    reason: str
    via: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A latch that this client watches has opened."""

    line: LineId
    via: int = 0


@dataclass(frozen=True, slots=True)
class Reconnected:
    """Calls may have been missed: everybody who waits has to look again."""

    via: int = 0


@dataclass(frozen=True, slots=True)
class StateChanged:
    """Where the server keeps a session: it is connected, suspended or lost. Nothing follows from it by itself."""

    state: str
    via: int = 0


Call: TypeAlias = Called | CompanyCame | TicketGone | AskedToGo | Opened | Reconnected | StateChanged


@dataclass(frozen=True, slots=True)
class Row:
    """One ticket as `inspect` shows it: a client that holds or waits, for all of its tasks that share the ticket.

    `since`: seconds since it joined. `remaining`: seconds until it ends unless renewed. Both by the server's clock.
    """

    kind: str
    key: str
    id: TicketId
    owner: str
    inside: bool
    weight: int
    since: float  # seconds since it joined, by the server's clock
    remaining: float
    epoch: int | None = None


# --- decisions ---------------------------------------------------------------------------------------------


def admit(size: int, inside: int, waiting: Iterable[int]) -> int:
    """Apply the rule: return how many of those who wait enter now.

    *inside* is what the tickets inside a line of *size* weigh in all, *waiting* the weights of those who wait, oldest
    first. A ticket heavier than its line never gets this far: it is refused when it joins and when the line shrinks,
    so that the head cannot block the others for ever.
    """
    enter = 0
    for weight in waiting:
        inside += weight
        if inside > size:
            break
        enter += 1
    return enter


def deadline_of(sent_at: float, remaining: float) -> float:
    """Return until when an answer is believed: counted from before its request was sent, less drift."""
    return sent_at + remaining - (remaining * 0.01 + 0.002)


def waiting_life(ttl: float) -> float:
    """Return how long a ticket waits without being renewed."""
    return min(WAITING_LIFE, ttl)


def tombstone_life(ttl: float) -> float:
    """Return how long a buried id is remembered: longer than any delayed join can be on its way."""
    return max(60.0, math.ceil(4 * ttl))
