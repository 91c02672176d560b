"""The engine: what all cohorts of one client share, and the way of every call to its place."""

from __future__ import annotations

import asyncio
import math
import secrets
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from aiodlock._core.cancel import insist
from aiodlock._core.cohort import Cohort, Shape
from aiodlock._core.fallback import WithFallback, new_ids
from aiodlock._core.hold import Hold
from aiodlock._core.latches import Latches
from aiodlock._core.leaving import Leaving
from aiodlock._core.line import (
    Answer,
    AskedToGo,
    Call,
    Called,
    CompanyCame,
    LineId,
    Opened,
    Reconnected,
    StateChanged,
    Ticket,
    TicketGone,
    TicketId,
    Wish,
)
from aiodlock._core.ownership import Owners
from aiodlock._core.place import FIRST_PAUSE, Place
from aiodlock._core.shared import SharedCohort
from aiodlock._core.supervise import Supervisor
from aiodlock._core.wake import Wakes
from aiodlock._core.watchdog import Watchdog
from aiodlock.backends.base import Backend, Diagnosing, Finding, Hearing
from aiodlock.clock import Clock
from aiodlock.errors import BackendError, BackendUnavailableError, ClientClosedError, TooManyWaitersError
from aiodlock.events import (
    BackendChanged,
    BackendFailed,
    Event,
    EventQueue,
    LockReleased,
    SetupDoubted,
    TaskFailed,
)
from aiodlock.policy import Policy, Push

__all__ = ["Engine"]

T = TypeVar("T")

SHORTEST_BATCH, LONGEST_BATCH = 0.001, 0.020
MOST_COHORTS = 1024  # of less than five kilobytes each, until those that nobody uses are dropped
MOST_WISHES = 16_384  # also of cohorts that are gone: what a backend made of one is there when its line is used again
LONGEST_PAUSE = 1.0  # before a verb without an answer is sent again
CLOSING = 1.0  # how long closing waits for blocks to end, and then for the server


class Engine:
    """One client at work, from open to close, on one event loop."""

    def __init__(
        self,
        own: Backend,
        *,
        name: str,
        clock: Clock,
        events: EventQueue | None,
        most_waiters: int,
        fallback: Backend | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.now = clock.now  # like `give`: before Python 3.12, what is called often is given a local name first
        client = secrets.token_hex(8)
        self.new_id = new_ids(client)
        self.wish = lru_cache(MOST_WISHES)(Wish)  # the same one for the same facts
        self.events = events
        self.most_waiters = most_waiters
        self.loop = asyncio.get_running_loop()
        wakes = Wakes(self.loop)
        self.give = wakes.give
        for server in (own,) if fallback is None else (own, fallback):
            if isinstance(server, Hearing):
                server.hearing = wakes
        self.fallback = WithFallback(self, own, fallback, borrower=client) if fallback is not None else None
        self.backend: Backend = self.fallback or own
        self.is_open = True
        self.is_over = False  # closing has waited long enough: what is not confirmed ends by its life
        self.is_loud = events is not None  # whether somebody wants to hear of every hand-off
        self.trusts_calls = self.backend.capabilities.trusts_calls
        self.waiting = 0
        self.grant = 0.0  # seconds that a join takes, on an average
        self.places: dict[TicketId, Place] = {}
        self._lost: deque[Place] = deque()  # lost, and not left yet: some task may still be in its block
        self.leaving = Leaving(self.loop)
        self.watchdog = Watchdog(clock, self._visit)
        self.work = Supervisor(self._report)
        self.latches = Latches(self)
        self.cohorts: dict[tuple[object, ...], Cohort] = {}  # also of lines not in use: many make a lock per request
        self._most_cohorts = MOST_COHORTS
        self._alone: weakref.WeakSet[Cohort] = weakref.WeakSet()  # each with one task, which keeps it alive
        self._owners: weakref.WeakValueDictionary[LineId, Owners] = weakref.WeakValueDictionary()
        self._ending: dict[Hold, None] = {}
        self._ended: asyncio.Future[None] | None = None

    # --- what cohorts ask for ----------------------------------------------------------------------------------

    def cohort(self, line: LineId, shape: Shape, policy: Policy) -> Cohort:
        """Return the cohort to queue in: the one of all alike, or a new one where everybody has a ticket of his own."""
        make = partial(SharedCohort if shape.shared else Cohort, self, line, shape=shape, policy=policy)
        if not policy.shares:
            alone = make()
            self._alone.add(alone)
            return alone
        waiting = None if type(policy.waiting) is Push else policy.waiting  # its hash is not free
        key = (line, shape, policy.ttl, policy.linger, waiting)
        cohort = self.cohorts.get(key)
        if cohort is None:
            if len(self.cohorts) >= self._most_cohorts:
                self._drop_idle()
            cohort = self.cohorts[key] = make()
        return cohort

    def cohorts_in_use(self) -> list[Cohort]:
        """Return where tasks of ours hold or wait."""
        return [cohort for cohort in (*self.cohorts.values(), *self._alone) if not cohort.is_idle]

    def lines_in_use(self) -> set[LineId]:
        """Return the lines that tasks of ours hold or wait for."""
        return {cohort.line for cohort in self.cohorts_in_use()}

    def places_of(self, line: LineId) -> list[Place]:
        """Return our places in *line*."""
        return [place for place in self.places.values() if place.ticket.line == line]

    def owners_of(self, line: LineId) -> Owners:
        """Return who of our tasks is inside *line*."""
        owners = self._owners.get(line)
        if owners is None:
            owners = self._owners[line] = Owners()
        return owners

    def too_many(self, line: LineId) -> TooManyWaitersError:
        """Return the error for a task that would be one too many."""
        return TooManyWaitersError(
            line.key, f"{self.waiting} tasks wait already, {line.key!r} is one too many: shed load"
        )

    def renew(self, places: list[Place]) -> None:
        """Renew all of *places* of one server in one call; their answers reach them."""
        for part in (places,) if self.fallback is None else self.fallback.by_server(places):
            asked = [(place, *place.renewal(place.next_life())) for place in part]
            verb = self.backend.renew([ticket for _, ticket, _, _ in asked])
            self.work.own(verb, partial(self._renewed, asked))

    async def extend(self, place: Place, ttl: float) -> None:
        """Renew one place for *ttl*, and wait for the answer."""
        before, place.lease_until = place.lease_until, max(place.lease_until, self.now() + ttl)
        ticket, sent_at, inside = place.renewal(ttl)
        answer: Answer | BackendError | None
        try:
            (answer,) = await self.ask(self.backend.renew([ticket]))
        except BackendError as error:
            answer = error
        place.renewed(sent_at, inside, answer)
        if answer is None or isinstance(answer, BackendError):
            place.lease_until = before
            hint = f"{ticket.line.key!r} was not extended: its lease is as it was, try again"
            raise BackendUnavailableError(hint) from answer

    async def ask(self, verb: Awaitable[T]) -> T:
        """Wait for a verb that runs as the client's own work: cancelling the caller does not tear it."""
        work = self.work.own(verb, lambda _: None)
        await asyncio.wait((work,))
        return self.work.result_of(work)

    def limit(self, future: asyncio.Future[Any], seconds: float, outcome: object) -> None:
        """End *future* after *seconds*, if nothing else does: with *outcome*, raised if it is an error."""
        if seconds == math.inf:
            return

        def expire() -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        timer = self.clock.call_at(self.now() + seconds, expire)
        future.add_done_callback(lambda _: timer.cancel())

    async def repeat(self, verb: Callable[[], Awaitable[T]], *, within: float) -> T:
        """Send *verb*, which can be repeated, until there is an answer; raise when there was none *within* seconds."""
        until, pause = self.now() + within, FIRST_PAUSE
        while True:
            try:
                return await verb()
            except BackendUnavailableError:
                if (left := until - self.now()) <= 0:
                    raise
            woken = self.loop.create_future()
            self.limit(woken, min(pause, left), None)
            await woken
            pause = min(2 * pause, within / 6, LONGEST_PAUSE)

    @property
    def batch(self) -> float:
        """How long a ticket is handed on in company."""
        return min(max(SHORTEST_BATCH, 4 * self.grant), LONGEST_BATCH)

    def examine(self) -> None:
        """Look how the server is set up, where it can tell and somebody wants to know, and report what is not well."""
        if self.events is not None and isinstance(self.backend, Diagnosing):
            self.work.own(self.backend.diagnose(), self._examined)

    def emit(self, event: Event) -> None:
        if self.events is not None:
            self.events.put(event)

    def ownership_ended(self, own: Hold, now: float) -> None:
        """Hear of a release, where somebody wants to know."""
        if own._task is not None:
            self.emit(LockReleased(*own._cohort.line, own._fence, now - own._since))
        self._ending.pop(own, None)
        if not self._ending and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def lost(self, place: Place) -> None:
        """Hear of a place that leaves when its blocks have ended; until its life is over, closing leaves it too."""
        while self._lost and (self._lost[0].left is not None or self._lost[0].over_at <= self.now()):
            self._lost.popleft()
        self._lost.append(place)

    # --- calls and visits --------------------------------------------------------------------------------------

    def on_call(self, call: Call) -> None:
        """Bring a call of the server to the place it is for; one for nobody here is answered by leaving."""
        if isinstance(call, Called):
            if place := self.places.get(call.id):
                place.called(call)
            else:  # Buried: a join of it may still be on its way.
                self.work.own(self.backend.leave(Ticket.of(call.line, call.id), bury=True), lambda _: None)
        elif isinstance(call, Reconnected):
            self._catch_up()
        elif isinstance(call, Opened):
            self.latches.look(call.line)
        elif isinstance(call, StateChanged):
            self.emit(BackendChanged(call.state))
        elif place := self.places.get(call.id):
            self._hear(place, call)

    def _catch_up(self) -> None:
        """Repeat at once what had no answer, then look what was missed: nobody waits for a pause of the outage.

        Leaves go first, because others may be waiting for them.
        """
        now = self.now()
        for place in [*self.leaving, *(place for place in self.places.values() if not place.answered)]:
            if place.slot is not None:  # else it is under way already
                self.watchdog.forget(place)
                place.visit(now)
        if asked := [place for place in self.places.values() if place.answered]:
            self.renew(asked)
        self.latches.look_at_all()

    def _hear(self, place: Place, call: CompanyCame | TicketGone | AskedToGo) -> None:
        match call:
            case CompanyCame():
                place.hear_company(True)
            case TicketGone():
                place.lose("somebody else gave it up")
            case AskedToGo(reason=reason):
                place.cohort.asked_to_go(place, reason)

    def _drop_idle(self) -> None:
        """Forget cohorts that nobody uses; seldom enough to cost each of them little."""
        for key, cohort in list(self.cohorts.items()):
            if cohort.is_idle:
                cohort.retired = True
                del self.cohorts[key]
        self._most_cohorts = max(MOST_COHORTS, 2 * len(self.cohorts))

    def _visit(self, places: list[Place], now: float) -> None:
        if renewing := [place for place in places if place.visit(now)]:
            self.renew(renewing)

    def _renewed(
        self,
        asked: list[tuple[Place, Ticket, float, bool]],
        answers: Sequence[Answer | None] | BackendError,
    ) -> None:
        each = [answers] * len(asked) if isinstance(answers, BackendError) else answers
        for (place, _, sent_at, inside), answer in zip(asked, each, strict=True):
            place.renewed(sent_at, inside, answer)

    def _examined(self, findings: Sequence[Finding] | BackendError) -> None:
        if not isinstance(findings, BackendError):
            for found in findings:
                if found.level != "ok":
                    self.emit(SetupDoubted(found.what, found.found, found.advice, found.level == "error"))

    def _report(self, error: BaseException) -> None:
        self.emit(BackendFailed(repr(error)) if isinstance(error, BackendError) else TaskFailed("work", repr(error)))

    def stay_behind(self) -> None:
        """Do nothing more in a forked process: the connection is its parent's."""
        self.is_open = False
        self.backend = cast("Backend", _Elsewhere())
        for cohort in (*self.cohorts.values(), *self._alone):
            cohort.retired = True

    # --- the end -----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Lose every hold, wait a little for their blocks, leave every line, close the backend."""
        self.is_open, self.is_loud = False, True
        for cohort in [*self.cohorts.values(), *self._alone]:
            cohort.fail(_closed)
            cohort.retired = True  # whoever comes now asks for another, and hears that we are closed
        self.latches.fail(_closed)
        places = [*self.places.values(), *(place for place in self._lost if place.left is None)]
        self._ending = {own: None for place in places for own in place.holds if own._all_blocks}
        for place in places:
            place.lose("its client was closed")
        if self._ending:
            ended = self._ended = self.loop.create_future()
            await insist(lambda: asyncio.wait((ended,), timeout=CLOSING))
        for place in places:
            place.leave()  # also where a hold is in no block, or its task has not come to take it
        await insist(self._leave_lines)
        self.watchdog.stop()
        self.leaving.stop()
        try:
            await insist(self.backend.aclose)
        finally:
            await insist(self.work.stop)
            self.cohorts.clear()
            if self.events is not None:
                self.events.flush()

    async def _leave_lines(self) -> None:
        """See every leave through, repeated if need be, and whatever else is under way."""
        until = self.loop.time() + CLOSING
        await self.leaving.wait(within=CLOSING)
        self.is_over = True
        await self.work.drain(within=until - self.loop.time())


class _Elsewhere:
    """Stands for the backend in a forked process."""

    def __getattr__(self, name: str) -> Any:
        raise ClientClosedError("this client belongs to the parent process: connect() again after fork")


def _closed() -> ClientClosedError:
    return ClientClosedError("the client was closed while this task waited")
