"""The engine: what all cohorts of one client share, and the way of every call to its place."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import weakref
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, TypeVar

from aiodlock._core.cohort import Cohort
from aiodlock._core.hold import Ownership
from aiodlock._core.line import (
    Answer,
    AskedToGo,
    Call,
    Called,
    CompanyCame,
    LineId,
    Opened,
    Reconnected,
    Ticket,
    TicketGone,
    TicketId,
)
from aiodlock._core.place import Place
from aiodlock._core.supervise import Supervisor
from aiodlock._core.watchdog import Watchdog
from aiodlock.backends.base import Backend
from aiodlock.clock import Clock
from aiodlock.errors import BackendError, ClientClosedError
from aiodlock.events import BackendFailed, Event, EventQueue
from aiodlock.policy import Policy

__all__ = ["Engine"]

T = TypeVar("T")

SHORTEST_BATCH, LONGEST_BATCH = 0.001, 0.020
CLOSING = 1.0  # how long closing waits for blocks to end, and then for the server


class Owners(dict["asyncio.Task[Any]", Ownership]):
    """Who of our tasks is inside one line; shared by all of its cohorts, gone with the last of them."""

    __slots__ = ("__weakref__",)


class Engine:
    """One client at work, from open to close, on one event loop."""

    def __init__(
        self, backend: Backend, *, name: str, clock: Clock, events: EventQueue | None, most_waiters: int
    ) -> None:
        self.backend = backend
        self.name = name
        self.clock = clock
        self.events = events
        self.most_waiters = most_waiters
        self.loop = asyncio.get_running_loop()
        self.is_open = True
        self.waiting = 0
        self.batch = SHORTEST_BATCH  # how long a ticket is handed on in company
        self.places: dict[TicketId, Place] = {}
        self.leaving: set[Place] = set()
        self.watchdog = Watchdog(clock, self._visit)
        self.work = Supervisor(self._report)
        self._cohorts: dict[tuple[object, ...], Cohort] = {}
        self._alone: dict[Cohort, None] = {}  # cohorts of one waiter, shared with nobody
        self._owners: weakref.WeakValueDictionary[LineId, Owners] = weakref.WeakValueDictionary()
        self._grant = 0.0
        self._ids = map("{}-{:x}".format, itertools.repeat(secrets.token_hex(8)), itertools.count(1))
        self._ending: dict[Ownership, None] = {}
        self._ended: asyncio.Future[None] | None = None

    # --- what cohorts ask for ----------------------------------------------------------------------------------

    def cohort(self, line: LineId, *, size: int, weight: int, policy: Policy) -> Cohort:
        """Return the cohort to queue in: the one of all alike, or a new one where everybody has a ticket of his own."""
        if not policy.shares:
            alone = Cohort(self, line, size=size, weight=weight, policy=policy)
            self._alone[alone] = None
            return alone
        key = (line, size, weight, policy.ttl, policy.linger, policy.waiting)
        cohort = self._cohorts.get(key)
        if cohort is None:
            cohort = self._cohorts[key] = Cohort(self, line, size=size, weight=weight, policy=policy)
            cohort.key = key
        return cohort

    def retire(self, cohort: Cohort) -> None:
        """Forget a cohort that nobody uses."""
        self._alone.pop(cohort, None)
        if self._cohorts.get(cohort.key) is cohort:
            del self._cohorts[cohort.key]

    def owners_of(self, line: LineId) -> Owners:
        """Return who of our tasks is inside *line*."""
        owners = self._owners.get(line)
        if owners is None:
            owners = self._owners[line] = Owners()
        return owners

    def new_id(self) -> TicketId:
        """Return an id that nobody used or will use."""
        return TicketId(next(self._ids))

    def renew(self, places: list[Place]) -> None:
        """Renew all of *places* in one call; their answers reach them."""
        asked = [(place, *place.renewal(place.ticket.ttl)) for place in places]
        verb = self.backend.renew([ticket for _, ticket, _, _ in asked])
        self.work.own(verb, partial(self._renewed, asked))

    async def extend(self, place: Place, ttl: float) -> None:
        """Renew one place for *ttl*, and wait for the answer."""
        ticket, sent_at, inside = place.renewal(ttl)
        answer = (await self.ask(self.backend.renew([ticket])))[0]
        place.renewed(sent_at, inside, answer)

    async def ask(self, verb: Awaitable[T]) -> T:
        """Wait for a verb that runs as the client's own work: cancelling the caller does not tear it."""
        return await asyncio.shield(self.work.own(verb, lambda _: None))

    def measure(self, round_trip: float) -> None:
        """Learn how long a grant takes; a batch is four times that."""
        self._grant += (round_trip - self._grant) / 8
        self.batch = min(max(4 * self._grant, SHORTEST_BATCH), LONGEST_BATCH)

    def emit(self, event: Event) -> None:
        if self.events is not None:
            self.events.put(event)

    def ownership_ended(self, own: Ownership) -> None:
        """Hear, while closing, that one more block has ended."""
        self._ending.pop(own, None)
        if not self._ending and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # --- calls and visits --------------------------------------------------------------------------------------

    def on_call(self, call: Call) -> None:
        """Bring a call of the server to the place it is for; one for nobody here is answered by leaving."""
        if isinstance(call, Reconnected):
            self.renew([place for place in self.places.values() if place.answered])
        elif isinstance(call, Opened):
            ...
        elif place := self.places.get(call.id):
            self._hear(place, call)
        elif isinstance(call, Called):
            self.work.own(self.backend.leave(Ticket(call.line, call.id)), lambda _: None)

    def _hear(self, place: Place, call: Called | CompanyCame | TicketGone | AskedToGo) -> None:
        match call:
            case Called():
                place.called(call)
            case CompanyCame():
                place.hear_company(True)
            case TicketGone():
                place.lose("somebody else gave it up")
            case AskedToGo(reason=reason):
                place.cohort.asked_to_go(place, reason)

    def _visit(self, places: list[Place], now: float) -> None:
        if renewing := [place for place in places if place.visit(now)]:
            self.renew(renewing)

    def _renewed(
        self,
        asked: list[tuple[Place, Ticket, float, bool]],
        answers: Sequence[Answer | None] | BackendError,
    ) -> None:
        if isinstance(answers, BackendError):
            answers = [None] * len(asked)
        for (place, _, sent_at, inside), answer in zip(asked, answers, strict=True):
            place.renewed(sent_at, inside, answer)

    def _report(self, error: BaseException) -> None:
        self.emit(BackendFailed(repr(error)))

    # --- the end -----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Lose every hold, wait a little for their blocks, leave every line, close the backend."""
        self.is_open = False
        for cohort in [*self._cohorts.values(), *self._alone]:
            cohort.fail(lambda: ClientClosedError("the client was closed while this task waited"))
        places = list(self.places.values())
        self._ending = {own: None for place in places for own in place.holds if own.blocks}
        for place in places:
            place.lose("its client was closed")
        if self._ending:
            self._ended = self.loop.create_future()
            await asyncio.wait((self._ended,), timeout=CLOSING)
        await self.work.drain(within=CLOSING)
        self.watchdog.stop()
        await self.backend.aclose()
        await self.work.stop()
        if self.events is not None:
            self.events.flush()
