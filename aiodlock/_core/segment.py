"""One segment of a stock that is spread over servers: what it is asked, what it answers, and what to bring where."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from aiodlock._core.stock import (
    AlreadyTaken,
    Audit,
    Differs,
    Entry,
    Remaining,
    Returned,
    Sale,
    SoldOut,
    Take,
    Taken,
    even,
)

__all__ = ["Arrivals", "Count", "Draw", "Look", "Moves", "Page", "Refusal", "Segment", "draws", "levelled"]

Refusal: TypeAlias = SoldOut | AlreadyTaken


class Look(NamedTuple):
    """What a segment says of itself at one instant."""

    born: int  # of the stock, when it was first opened
    sale: int  # grows with every opening and closing
    is_open: bool
    ends: int  # when a closed stock is forgotten, for all segments the same
    left: int
    came_in: int  # all that ever came in: loaded, put back, arrived. The change number
    sent: int  # to other segments, ever
    arrived: int  # from other segments, ever


class Arrivals(NamedTuple):
    """What a segment is told of articles on their way to it: from which other one, how many it ever sent."""

    born: int
    sent: tuple[tuple[int, int], ...] = ()


class Moves(NamedTuple):
    """All that a segment ever sent to each other one, and had from each."""

    sent: Mapping[int, int]
    arrived: Mapping[int, int]


class Count(NamedTuple):
    """The books of one segment, and how much more it has sent to others than it had from them."""

    audit: Audit
    sent: int


class Page(NamedTuple):
    """The next entries of one outbox; every later one will have a larger id than *until*."""

    until: int
    entries: Sequence[Entry]


class Segment(Protocol):
    """One segment on its server: every verb is one atomic step there. All can be repeated; see the module."""

    def claim(self, orders: Sequence[tuple[str, str]]) -> Awaitable[Sequence[str] | Differs]:
        """Give each order to its buyer, unless it is another's; return whose they are.

        Nobody, the empty name, is given nothing, and may ask.
        """
        ...

    def take(self, takes: Sequence[Take], arrivals: Arrivals) -> Awaitable[Sequence[Sale | None] | Differs]:
        """Let articles arrive, then answer each order; None where this segment has too little, or is closed."""
        ...

    def refuse(self, refusals: Sequence[tuple[Take, Refusal]]) -> Awaitable[Sequence[Sale] | Differs]:
        """Remember each refusal, unless the order is known; return what it answers from now on."""
        ...

    def confirm(self, order: str, buyer: str) -> Awaitable[Taken | Returned | AlreadyTaken | Differs]: ...

    def put_back(self, order: str, buyer: str) -> Awaitable[Returned | AlreadyTaken | Differs]: ...

    def load(self, quantity: int, operation: str) -> Awaitable[bool | Differs]: ...

    def add(self, quantity: int, operation: str) -> Awaitable[bool | Differs]: ...

    def close(self) -> Awaitable[Remaining | Differs]: ...

    def look(self) -> Awaitable[Look | Differs]:
        """Do all that is due, and tell."""
        ...

    def tell(self, news: Look) -> Awaitable[Look | Differs]:
        """Hear what segment 0 said of the sale, unless it is old; what is left of a forgotten stock goes."""
        ...

    def send(self, to: int, quantity: int) -> Awaitable[int | Differs]:
        """Send what there is of *quantity* on its way; return all that was ever sent there."""
        ...

    def arrive(self, arrivals: Arrivals) -> Awaitable[Look | Differs]: ...

    def moves(self) -> Awaitable[Moves | Differs]: ...

    def count(self) -> Awaitable[Count | Differs]: ...

    def read(self, done: str, most: int, until: int) -> Awaitable[Page | Differs]:
        """Drop the entries up to *done*, return the next, and promise that later ones are later than *until*."""
        ...


# --- decisions ---------------------------------------------------------------------------------------------


class Draw(NamedTuple):
    """How many to bring from where to where."""

    source: int
    target: int
    quantity: int


def draws(left: Sequence[int], wanted: Mapping[int, int]) -> list[Draw]:
    """Say from where to bring to each segment what is *wanted* there, the richest first.

    Half of what a segment has is brought if that is more: the next buyers come soon. What one target draws or has
    itself is not given to the next one, so that at least the first can be served.
    """
    rest, plan = list(left), []
    for target, quantity in wanted.items():
        lacking = quantity - rest[target]
        rest[target] = 0
        for source in sorted(range(len(rest)), key=lambda one: (one in wanted, -rest[one])):
            if lacking <= 0 or not rest[source]:
                continue
            some = min(rest[source], max(lacking, rest[source] // 2))
            plan.append(Draw(source, target, some))
            rest[source] -= some
            lacking -= some
    return plan


def levelled(left: Sequence[int]) -> list[Draw]:
    """Say what to bring where so that all have the same."""
    over = {at: has - share for at, (has, share) in enumerate(zip(left, even(sum(left), len(left)), strict=True))}
    plan = []
    for target in (at for at in over if over[at] < 0):
        for source in over:
            some = min(over[source], -over[target])
            if some > 0:
                plan.append(Draw(source, target, some))
                over[source] -= some
                over[target] += some
    return plan
