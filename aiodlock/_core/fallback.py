"""Degradation: for those who chose it, another server lends its lines while their own is unreachable.

A ticket belongs to one server for good, and its id says to which; nothing moves between them. Whoever waited on the
own server takes another ticket, lent by the fallback, and the other way round when the own one is back. Whoever is
inside leaves where he entered, and until then nobody else of this client enters that line on the other server.

What counts is how long the own server has been silent: since the first request without an answer, until it answers a
ping. A line is lent when that is as long as the ttl of whoever asks.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from aiodlock._core.cancel import insist
from aiodlock._core.line import Answer, Gone, GoneWhy, LineId, Row, Ticket, TicketId, Waiting
from aiodlock.backends.base import Backend, Capabilities, Diagnosing, Finding, OnCall
from aiodlock.errors import BackendError
from aiodlock.events import DegradationBegun, DegradationEnded

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock._core.place import Place
    from aiodlock.clock import Timer

__all__ = ["WithFallback", "common", "new_ids"]

_LOOK_AGAIN = 0.1  # seconds, where somebody of ours is inside on the other server
_BETWEEN_PINGS = (0.5, 1.5)


def new_ids(client: str) -> Callable[[], TicketId]:
    """Return what makes ids that nobody used or will use, from a *client*'s name that nobody else has."""
    return cast("Callable[[], TicketId]", (f"{client}-{number}" for number in itertools.count(1)).__next__)


def common(own: Capabilities, fallback: Capabilities) -> Capabilities:
    """Return what can be promised with either of the two. Latches and stock are not lent."""
    return replace(
        own,
        kinds=own.kinds & (fallback.kinds | {"latch"}),
        pushes=own.pushes and fallback.pushes,
        trusts_calls=own.trusts_calls and fallback.trusts_calls,
        most_tickets=min(own.most_tickets, fallback.most_tickets),
        ordered=own.ordered and fallback.ordered,
    )


class WithFallback:
    """The backend of a client that has two, and what it knows of the silence of its own."""

    def __init__(self, engine: Engine, own: Backend, fallback: Backend, *, borrower: str) -> None:
        self.capabilities = common(own.capabilities, fallback.capabilities)
        self.address = own.address
        self._engine = engine
        self._own, self._fallback = own, fallback
        self._borrower = borrower  # in the ids of our own server's tickets
        self._lender = secrets.token_hex(8)  # and of lent ones
        self._new_lent_id = new_ids(self._lender)
        self._silent_since: float | None = None
        self._heard_at = 0.0  # when a ping was answered
        self._is_degraded = False
        self._inside: dict[LineId, list[Place]] = {}
        self._pinging: Timer | None = None

    # --- silence -----------------------------------------------------------------------------------------------

    def doubt(self, place: Place) -> None:
        """Hear that a request of *place* has no answer; from the first one on the own server is asked for a sign."""
        if self._silent_since is None and not self.has_lent(place):
            since = place.asked_since
            self._silent_since = self._engine.now() if since is None else max(since, self._heard_at)
            self._ping()

    def lends(self, ttl: float) -> bool:
        """Whether a ticket with this *ttl* is one of the fallback now: no lease of the own server is older."""
        since = self._silent_since
        return since is not None and self._engine.now() - since >= ttl

    def lend(self) -> TicketId:
        """Return the id of a ticket of the fallback; with the first one the client is degraded."""
        if not self._is_degraded:
            self._is_degraded = True
            self._engine.emit(DegradationBegun(self.address, self._fallback.address))
        return self._new_lent_id()

    def _ping(self) -> None:
        clock = self._engine.clock
        self._pinging = clock.call_at(clock.now() + random.uniform(*_BETWEEN_PINGS), self._ping)
        self._engine.work.own(self.ping(), self._pinged)

    def _pinged(self, answer: BackendError | None) -> None:
        if self._silent_since is None or isinstance(answer, BackendError) or not self._engine.is_open:
            return
        self._silent_since, self._heard_at = None, self._engine.now()
        self._stop_pinging()
        if self._is_degraded:
            self._is_degraded = False
            self._engine.emit(DegradationEnded(self.address, self._fallback.address))
            for place in [place for place in self._engine.places.values() if self.has_lent(place)]:
                self._call_back(place)

    def _call_back(self, place: Place) -> None:
        """Have those who wait with a lent *place* take one of the own server; ask those who are inside to let go."""
        if self._is_inside(place):
            place.cohort.asked_to_go(place, "its own server is back")
        else:
            place.lose("its own server is back")

    def _stop_pinging(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()

    # --- places ------------------------------------------------------------------------------------------------

    def has_lent(self, place: Place) -> bool:
        """Whether *place* is one of the fallback."""
        return place.ticket.id.startswith(self._lender)

    def is_misplaced(self, place: Place) -> bool:
        """Whether another ticket in the stead of *place* would be one of the other server."""
        return self.has_lent(place) is not self.lends(place.ticket.ttl)

    def lets_in(self, place: Place) -> bool:
        """Count *place* as inside, unless somebody of ours is inside its line on the other server."""
        if self._is_kept_out(place.ticket):
            return False
        self._inside.setdefault(place.ticket.line, []).append(place)
        return True

    def ended(self, place: Place) -> None:
        """Hear that *place* is nobody's any more."""
        if self._is_inside(place):
            places = self._inside[place.ticket.line]
            places.remove(place)
            if not places:
                del self._inside[place.ticket.line]

    def by_server(self, places: Iterable[Place]) -> list[list[Place]]:
        """Return *places* in two parts at most: one server is not waited for to hear of the other."""
        own: list[Place] = []
        lent: list[Place] = []
        for place in places:
            (lent if self.has_lent(place) else own).append(place)
        return [part for part in (own, lent) if part]

    def _is_inside(self, place: Place) -> bool:
        return place in self._inside.get(place.ticket.line, ())

    def _is_kept_out(self, ticket: Ticket) -> bool:
        if ticket.line.kind == "segments":  # an agreement keeps nobody out
            return False
        server = self._of(ticket.id)
        others = [place for place in self._inside.get(ticket.line, ()) if self._of(place.ticket.id) is not server]
        for place in others:
            place.cohort.let_idle_go(place)
        return any(self._is_inside(place) for place in others)

    # --- the backend -------------------------------------------------------------------------------------------

    async def open(self, on_call: OnCall) -> None:
        """Open both: a fallback that is not there is noticed now, not when it is needed."""
        await self._own.open(on_call)
        await self._fallback.open(on_call)

    async def aclose(self) -> None:
        self._stop_pinging()
        await asyncio.gather(insist(self._own.aclose), insist(self._fallback.aclose))

    def ping(self) -> Awaitable[None]:
        return self._own.ping()

    async def diagnose(self) -> Sequence[Finding]:
        return await self._own.diagnose() if isinstance(self._own, Diagnosing) else ()

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        if self._inside and instead_of is None and self._is_kept_out(ticket):
            name = self._engine.name
            return _at_once(Waiting(1, _LOOK_AGAIN, 0, name) if queue else Gone(GoneWhy.BUSY, name))
        return self._of(ticket.id).join(ticket, queue=queue, instead_of=instead_of)

    async def leave(self, ticket: Ticket, *, bury: bool = False) -> None:
        """Leave where the ticket is; somebody else's may be on any server that was looked at."""
        is_ours = ticket.id.startswith((self._borrower, self._lender))
        for server in (self._of(ticket.id),) if is_ours else self._looked_at:
            await server.leave(ticket, bury=bury)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        """Renew *tickets* of one server. One that was kept out here never came there: it is gone, and joins again."""
        return self._of(tickets[0].id).renew(tickets)

    async def inspect(self, kind: str, pattern: str) -> Sequence[Row]:
        return [row for server in self._looked_at for row in await server.inspect(kind, pattern)]

    def change_weight(self, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        return self._of(ticket.id).change_weight(ticket, weight)

    async def change_size(self, line: LineId, size: int) -> None:
        for server in self._looked_at:
            await server.change_size(line, size)

    async def revoke(self, line: LineId, reason: str) -> int:
        return sum([await server.revoke(line, reason) for server in self._looked_at])

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        return self._own.latch(line, count=count, down=down, operation=operation, ttl=ttl)

    def _of(self, id_: TicketId) -> Backend:
        return self._fallback if id_.startswith(self._lender) else self._own

    @property
    def _looked_at(self) -> list[Backend]:
        """Where anybody may be of whom we want to know: on the own server unless it is away, and where we borrowed."""
        if self._is_degraded:
            return [self._fallback]
        is_lent = any(self.has_lent(place) for places in self._inside.values() for place in places)
        return [self._own, self._fallback] if is_lent else [self._own]


async def _at_once(answer: Answer) -> Answer:
    return answer
