"""What a backend is: a place where lines are kept.

Four verbs carry every wait: ``join``, ``leave``, ``renew``, and the stream of calls that the server pushes. None of
them waits for a turn. Every verb is idempotent, so the engine may repeat it after a lost reply; the backend and its
driver repeat by themselves only what the server says it has not done: a slot moved, a transaction was rolled back.

A verb returns an awaitable: a coroutine, a future (the engine then needs no task), or a `Reply` (no step of the loop).
A verb without an answer raises :class:`~aiodlock.errors.BackendUnavailableError`: it may or may not have happened.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from aiodlock._core.line import Answer, Call, LineId, Row, Ticket, TicketId
from aiodlock._core.stock import (
    AlreadyTaken,
    Audit,
    Differs,
    Entry,
    Remaining,
    Returned,
    Sale,
    Take,
    Taken,
    Terms,
)

__all__ = [
    "Backend",
    "Capabilities",
    "Diagnosing",
    "Finding",
    "Hearing",
    "OnCall",
    "Preparing",
    "Reply",
    "Stocking",
    "Stockroom",
    "as_future",
    "only_key",
    "pause_after",
]

_T = TypeVar("_T")

OnCall: TypeAlias = Callable[[Call], None]

_PLAIN = re.compile(r"(?:[^*?\[]|\[[*?\[]\])*")  # a shell-style pattern in which every special character is escaped
_ESCAPED = re.compile(r"\[([*?\[])\]")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5  # short beside any ttl: who waits must not fail because we pause


def only_key(pattern: str) -> str | None:
    """Return the one key that a shell-style *pattern* can match, as `glob.escape` writes it; None if there are more."""
    return _ESCAPED.sub(r"\1", pattern) if _PLAIN.fullmatch(pattern) else None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do; tests state it in a table, so that a lost capability fails instead of being skipped."""

    kinds: frozenset[str] = frozenset({"lock", "rwlock", "semaphore", "latch"})
    pushes: bool = True  # calls arrive by themselves; otherwise the engine looks
    trusts_calls: bool = True  # whoever is called is inside; otherwise a call means: look
    shared: bool = True  # other processes see the same lines
    most_tickets: int = 1_000_000  # per line
    ordered: bool = True  # whoever asked first is first; otherwise nothing is fair
    stock: bool = False  # whether it plays the role of `Stocking` too


class Backend(Protocol):
    """The role every server technology plays."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def address(self) -> str:
        """Scheme, sorted hosts, and database or root: equal for two clients of the same server. No secrets."""
        ...

    async def open(self, on_call: OnCall) -> None:
        """Connect; from now on *on_call* is called on the loop for whatever the server pushes."""
        ...

    async def aclose(self) -> None:
        """Close every connection, also with a dead server, within a second."""
        ...

    def ping(self) -> Awaitable[None]: ...

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        """Stand in line, or look where the ticket stands.

        Every verb first sweeps the expired and calls whoever now fits. A ticket that enters at once lives its ttl.
        Whenever the answer is ``Waiting`` the ticket lives its waiting life from now; called, it is inside for what is
        left of that, until a renewal. With *queue* false the ticket never stays in line: it is ``Inside`` or
        ``Gone(BUSY)``. With *instead_of* that ticket of the same line leaves in the same step, before this one stands.
        """
        ...

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        """Give the place up in any state, any number of times; whoever now fits is inside in the same step, and called.

        With *bury* the id is remembered for `tombstone_life(ttl)`: a join of it that arrives late is ``Gone(BURIED)``.
        The leaver's own client is not called; another client whose ticket this was gets ``TicketGone``.
        """
        ...

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        """Keep these tickets alive; answer for each what ``join`` would, or None where a part of the server is silent.

        An inside ticket lives at least its ttl from now, a waiting one its waiting life; no life is shortened. An
        unknown ticket is ``Gone(EXPIRED)``; it is never created.
        """
        ...

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        """Return the tickets of all lines of *kind* ("*": any) whose key matches the shell-style *pattern*."""
        ...

    def change_weight(self, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        """Give an inside ticket a smaller weight in place; whoever now fits is called."""
        ...

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        """Give a line that has tickets another size; whoever now fits is called, whoever is too heavy is gone."""
        ...

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        """Ask every ticket inside to go; return how many were asked."""
        ...

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        """Make the latch if it is not there, count it down once per *operation*, watch it, and return what is left.

        ``down=0`` only looks and keeps it alive. When it reaches zero every client that watches gets ``Opened``. It
        lives *ttl* after the last call of this verb; then it is forgotten.
        """
        ...


class Reply(Generic[_T]):
    """An answer under way, whose owner is told in the very step in which it arrives: `then`, if it is set.

    Otherwise it is awaited, or looked at as a future, which is made only then: most verbs need none.
    """

    __slots__ = ("made", "otherwise", "then")

    def __init__(self) -> None:
        self.then: Callable[[Any], None] | None = None
        self.otherwise: Callable[[Callable[[Any], None], BaseException], None]  # told of an error, and given `then`
        self.made: asyncio.Future[_T] | None = None  # only where one was asked for

    @property
    def future(self) -> asyncio.Future[_T]:
        """The same as a future."""
        if self.made is None:
            self.made = asyncio.get_running_loop().create_future()
        return self.made

    def __await__(self) -> Generator[Any, None, _T]:
        return self.future.__await__()

    def done(self) -> bool:
        """Whether it is there, or nobody wants it any more."""
        return self.made is not None and self.made.done()

    def arrive(self, answer: _T) -> None:
        """Hear the answer."""
        if self.then is not None:
            self.then(answer)
        elif not self.done():
            self.future.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Hear why there is none."""
        if self.then is not None:
            self.otherwise(self.then, error)
        elif not self.done():
            is_unseen = self.made is None
            self.future.set_exception(error)
            if is_unseen:
                self.future.exception()  # whoever asks is told; that nobody has yet is no mistake


def as_future(verb: Awaitable[_T]) -> asyncio.Future[_T]:
    """Return a verb as a future: as it is, if it is one; only a coroutine costs a task."""
    return verb.future if isinstance(verb, Reply) else asyncio.ensure_future(verb)


def pause_after(tries: int) -> float:
    """Return how long to wait after so many tries to connect: longer and longer, and not all clients as long."""
    return min(_FIRST_PAUSE * (1 << min(tries, 20)), _LONGEST_PAUSE) * random.uniform(0.5, 1.5)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a doctor looked at, what was found, and what to do about it where it is not well."""

    what: str
    found: str
    level: Literal["ok", "warning", "error"] = "ok"
    advice: str = ""


@runtime_checkable
class Diagnosing(Protocol):
    """A role that a backend may play beside its own: telling how its server is set up (`aiodlock doctor`)."""

    def diagnose(self) -> Awaitable[Sequence[Finding]]:
        """Look only: nothing on the server is changed."""
        ...


@runtime_checkable
class Hearing(Protocol):
    """A role that a backend may play beside its own: saying where that begins and ends which arrived together."""

    hearing: AbstractContextManager[None]
    """Set before `open`. Entered around answers and calls that arrived together; whoever they wake runs when it is
    left, not a step of the loop later."""


@runtime_checkable
class Preparing(Protocol):
    """A role that a backend may play beside its own: making what has to be on its server (`aiodlock mysql init`)."""

    def prepare(self) -> Awaitable[str]:
        """Make what is missing, for an unopened backend too; return what is there now."""
        ...


class Stockroom(Protocol):
    """The stock of one key on a server. Every verb is one atomic step there, or is seen as one; each can be repeated.

    What is due is done first: a reservation whose time is over goes back, an order that was remembered long enough is
    forgotten. Each verb answers `Differs`, and does nothing, where the stock was made on other terms.
    """

    def load(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        """Open the sale with *quantity* more, unless it is open; return whether *operation* did."""
        ...

    def add(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        """Add to an open sale, once per *operation*; return whether it was added."""
        ...

    def take(self, takes: Sequence[Take]) -> Awaitable[Sequence[Sale] | Differs]:
        """Answer each of *takes*, in this order. Those accepted are written to the outbox in the same step.

        An order is tried in its home segment, then in the others around; where none has enough but all have, home is
        filled up from them. A refusal of one sent `again` is remembered, so that a copy which arrives late meets it.
        One that is reserved, and asked for without a time to hold it, is kept for good.
        """
        ...

    def confirm(self, order: str, buyer: str) -> Awaitable[Taken | Returned | AlreadyTaken | Differs]:
        """Keep a reservation of *buyer* for good; return what the order has."""
        ...

    def put_back(self, order: str, buyer: str) -> Awaitable[Returned | AlreadyTaken | Differs]:
        """Give back what the order has; one that is not there is buried: when it comes, it is `Returned`."""
        ...

    def remaining(self) -> Awaitable[Remaining | Differs]: ...

    def rebalance(self) -> Awaitable[Remaining | Differs]:
        """Spread what is left evenly."""
        ...

    def audit(self) -> Awaitable[Audit | Differs]:
        """Count again, order by order, and the entries of the outbox."""
        ...

    def close(self) -> Awaitable[Remaining | Differs]:
        """Sell nothing more. What was taken can be confirmed and put back as long as it is remembered.

        Twice the memory after it was last changed, at the earliest, all of it is forgotten but the outbox, and another
        sale of the key begins from nothing.
        """
        ...

    def outbox(self, done: str, most: int) -> Awaitable[Sequence[Entry] | Differs]:
        """Drop the entries up to the id *done* (none if it is empty), and return the next ones, oldest first."""
        ...


@runtime_checkable
class Stocking(Protocol):
    """A role that a backend may play beside its own: keeping stock."""

    def stock(self, terms: Terms) -> Stockroom:
        """Return the stock of a key. No I/O."""
        ...
