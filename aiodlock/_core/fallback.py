"""Degradation: for those who chose it, another server lends its lines while their own is unreachable.

A ticket belongs to one server for good, and its id says to which; nothing moves between them. When the client changes
over, whoever waits takes another ticket, and whoever is inside leaves where he entered. Until then nobody else of this
client enters that line on the other server.
"""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from aiodlock._core.cancel import insist
from aiodlock._core.line import Answer, Gone, GoneWhy, LineId, Row, Ticket, TicketId, Waiting
from aiodlock._core.place import INSIDE, Place
from aiodlock.backends.base import Backend, Capabilities, Diagnosing, Finding, OnCall
from aiodlock.errors import BackendError
from aiodlock.events import DegradationBegun, DegradationEnded

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.clock import Timer

__all__ = ["WithFallback", "common", "new_ids"]

_LOOK_AGAIN = 0.05  # seconds, where somebody of ours is still inside on the other server
_BETWEEN_PINGS = (0.5, 1.5)


def new_ids(client: str) -> Callable[[], TicketId]:
    """Return what makes ids that nobody used or will use, from a *client*'s name that nobody else has."""
    return cast("Callable[[], TicketId]", (f"{client}-{number}" for number in itertools.count(1)).__next__)


def common(own: Capabilities, fallback: Capabilities) -> Capabilities:
    """Return what can be promised whichever of the two is in use. Latches and stock are not lent."""
    return replace(
        own,
        kinds=own.kinds & (fallback.kinds | {"latch"}),
        pushes=own.pushes and fallback.pushes,
        trusts_calls=own.trusts_calls and fallback.trusts_calls,
        most_tickets=min(own.most_tickets, fallback.most_tickets),
        ordered=own.ordered and fallback.ordered,
    )


class _Server(NamedTuple):
    backend: Backend
    client: str  # in the ids of our tickets there
    new_id: Callable[[], TicketId]


class WithFallback:
    """The backend of a client that has two. It is degraded while new tickets are those of the *fallback*."""

    def __init__(self, engine: Engine, own: Backend, fallback: Backend) -> None:
        self.capabilities = common(own.capabilities, fallback.capabilities)
        self.address = own.address
        self._engine = engine
        self._own, self._fallback = _server(own), _server(fallback)
        self._behind: list[Place] = []  # inside on the server that is not in use
        self._ping: Timer | None = None
        self._use(self._own)

    # --- changing over -----------------------------------------------------------------------------------------

    def stands_in_for(self, place: Place) -> bool:
        """Hear that a *place* had no answer for its ttl; return whether whoever waits can have another of the fallback.

        Whose server is silent in part is not degraded: every lease is renewed, and heard of, each third of its ttl.
        """
        if self.has_lent(place):
            return False
        if self._in_use is self._own:
            engine = self._engine
            if not self._behind and engine.now() - engine.heard_at < place.ticket.ttl / 2:
                return False
            engine.emit(DegradationBegun(self.address, self._fallback.backend.address))
            self._change_over(self._fallback)
            self._ping_later()
        return True

    def has_lent(self, place: Place) -> bool:
        """Whether *place* is one of the fallback."""
        return self._of(place.ticket.id) is self._fallback

    def is_behind(self, place: Place) -> bool:
        """Whether *place* is inside on the server that is not in use."""
        return place in self._behind

    def _use(self, server: _Server) -> None:
        self._in_use = server
        self._engine.new_id = server.new_id

    def _change_over(self, server: _Server) -> None:
        self._use(server)
        others = [place for place in self._engine.places.values() if self._of(place.ticket.id) is not server]
        self._behind = [place for place in others if place.state is INSIDE]
        for place in others:
            if place.state is INSIDE:
                place.asked_to_go = True  # what is released there is not handed on
                place.set_until()
            else:
                place.lose("its server is not in use")

    def _ping_later(self) -> None:
        clock = self._engine.clock
        self._ping = clock.call_at(clock.now() + random.uniform(*_BETWEEN_PINGS), self._look_for_own)

    def _look_for_own(self) -> None:
        self._engine.work.own(self.ping(), self._pinged)

    def _pinged(self, answer: BackendError | None) -> None:
        if not self._engine.is_open:
            return
        if isinstance(answer, BackendError):
            self._ping_later()
        else:
            self._change_over(self._own)
            self._engine.emit(DegradationEnded(self.address, self._fallback.backend.address))

    # --- the backend -------------------------------------------------------------------------------------------

    async def open(self, on_call: OnCall) -> None:
        """Open both: a fallback that is not there is noticed now, not when it is needed."""
        await self._own.backend.open(on_call)
        await self._fallback.backend.open(on_call)

    async def aclose(self) -> None:
        if self._ping is not None:
            self._ping.cancel()
        try:
            await insist(self._fallback.backend.aclose)
        finally:
            await insist(self._own.backend.aclose)

    def ping(self) -> Awaitable[None]:
        return self._own.backend.ping()

    async def diagnose(self) -> Sequence[Finding]:
        own = self._own.backend
        return await own.diagnose() if isinstance(own, Diagnosing) else ()

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        if self._behind and self._is_inside_behind(ticket.line):
            return _at_once(Waiting(1, _LOOK_AGAIN, 0) if queue else Gone(GoneWhy.BUSY, self._engine.name))
        return self._of(ticket.id).backend.join(ticket, queue=queue, instead_of=instead_of)

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        return self._of(ticket.id).backend.leave(ticket, bury=bury)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        """Renew *tickets* of one server. One that had to wait here never came there: it is gone, and joins again."""
        return self._of(tickets[0].id).backend.renew(tickets)

    def by_server(self, places: Iterable[Place]) -> list[list[Place]]:
        """Return *places* in two parts at most: one server is not waited for to hear of the other."""
        parts: dict[str, list[Place]] = {}
        for place in places:
            parts.setdefault(self._of(place.ticket.id).client, []).append(place)
        return [*parts.values()]

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return self._in_use.backend.inspect(kind, pattern)

    def change_weight(self, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        return self._of(ticket.id).backend.change_weight(ticket, weight)

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        return self._in_use.backend.change_size(line, size)

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self._in_use.backend.revoke(line, reason)

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        return self._own.backend.latch(line, count=count, down=down, operation=operation, ttl=ttl)

    def _of(self, id_: TicketId) -> _Server:
        """Return the server of a ticket: ours by its id, somebody else's is one that was seen where we look now."""
        client = id_.rpartition("-")[0]
        return next((server for server in (self._own, self._fallback) if server.client == client), self._in_use)

    def _is_inside_behind(self, line: LineId) -> bool:
        self._behind = [place for place in self._behind if place.state is INSIDE]
        return any(place.ticket.line == line for place in self._behind)


def _server(backend: Backend) -> _Server:
    client = secrets.token_hex(8)
    return _Server(backend, client, new_ids(client))


async def _at_once(answer: Answer) -> Answer:
    return answer
