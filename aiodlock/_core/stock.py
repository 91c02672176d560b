"""What client and server say to each other about stock.

A stock is a number of articles in segments. An order takes some of them, once, however often it is asked for; what was
taken can go back, once. The books always balance:

    accepted - returned + left = loaded
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from aiodlock.errors import ConfigurationError

__all__ = [
    "AlreadyTaken",
    "Audit",
    "Differs",
    "Entry",
    "Move",
    "Movement",
    "Remaining",
    "Returned",
    "Sale",
    "SoldOut",
    "Take",
    "Taken",
    "Terms",
    "even",
]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one stock, the same for everybody who uses its key."""

    key: str
    segments: int = 1
    memory: float = 3600.0  # seconds that an order is remembered after it was last changed
    once_per_buyer: bool = False
    outbox: bool = False


class Take(NamedTuple):
    """One order's wish, in the order of its parts as the scripts read it."""

    order: str
    buyer: str
    quantity: int = 1
    home: int = 0  # the segment to try first
    hold_for: float = 0.0  # seconds after which it goes back unless confirmed; 0: taken for good
    again: bool = False  # sent before, with an unknown outcome: a refusal is then remembered


# --- answers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """The order has its articles, from `segment`, which had `left` more just then. Asked again, it says the same."""

    segment: int
    left: int


@dataclass(frozen=True, slots=True)
class SoldOut:
    """All segments together had fewer than asked for at one instant: `left`. Or the sale is closed."""

    left: int = 0


@dataclass(frozen=True, slots=True)
class AlreadyTaken:
    """Another one stands in the way: `order` of `buyer`.

    It is the buyer's other order, where one is allowed; or this order was made by another buyer or for another
    quantity.
    """

    order: str
    buyer: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The order has gone back, with `quantity` articles; 0 if it was put back before it arrived."""

    quantity: int = 0


@dataclass(frozen=True, slots=True)
class Differs:
    """The stock was loaded on other terms."""

    terms: Terms

    def refusal(self, asked: Terms) -> ConfigurationError:
        """Return the error for whoever *asked*."""
        return ConfigurationError(
            f"stock {asked.key!r} is in use on other terms: {self.terms}, this client asks for {asked}: "
            "use the same everywhere"
        )


Sale: TypeAlias = Taken | SoldOut | AlreadyTaken | Returned


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left, in all and in each segment, at one instant."""

    segments: tuple[int, ...]

    @property
    def total(self) -> int:
        """In all segments together."""
        return sum(self.segments)


@dataclass(frozen=True, slots=True)
class Audit:
    """The books: counted as it happened, and counted again, order by order.

    `orders` is what the orders have that are still remembered, `forgotten` what those had that no longer are. `outbox`
    says how many entries nobody has done with, each of one step.
    """

    loaded: int
    accepted: int
    returned: int
    forgotten: int
    orders: int
    segments: tuple[int, ...]
    outbox: int = 0

    @property
    def left(self) -> int:
        """In all segments together."""
        return sum(self.segments)

    @property
    def is_balanced(self) -> bool:
        """Whether nothing was sold twice and nothing lost, in sum and order by order."""
        taken = self.accepted - self.returned
        return (
            taken + self.left == self.loaded
            and self.orders + self.forgotten == taken
            and min(self.segments, default=0) >= 0
        )


# --- the outbox --------------------------------------------------------------------------------------------


class Move(enum.Enum):
    """What happened to an order."""

    TAKEN = "taken"
    RESERVED = "reserved"
    CONFIRMED = "confirmed"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Movement:
    """One thing that happened to one order."""

    move: Move
    order: str
    buyer: str
    quantity: int
    segment: int


@dataclass(frozen=True, slots=True)
class Entry:
    """The movements of one atomic step, as they stand in the outbox; later entries have larger ids."""

    id: str
    movements: tuple[Movement, ...]


# --- decisions ---------------------------------------------------------------------------------------------


def even(quantity: int, segments: int, *, first: int = 0) -> Iterable[int]:
    """Spread *quantity* over *segments*; what does not divide goes to those from *first* on, around the end."""
    share, rest = divmod(quantity, segments)
    return (share + ((segment - first) % segments < rest) for segment in range(segments))
