"""The cohort: local tasks that share tickets.

Tasks of one client that want the same line with the same weight and ttl queue here on plain futures. When a ticket is
inside, its place passes from local task to local task with no round trip; the server sees one ticket for a thousand
tasks. A user's task does no I/O: it waits on its future, and being cancelled is a local act.

Alone with a key, a cohort hands on without bound. In company it does so for one batch; then the ticket leaves and a
new one stands at the end of the line, both in one round trip.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId, waiting_life
from aiodlock._core.ownership import LEASE_ENDED
from aiodlock._core.place import INSIDE, THIRD, Place
from aiodlock._core.tickets import Tickets
from aiodlock._core.wake import Waiter
from aiodlock.events import HoldRevoked
from aiodlock.policy import Policy, Push

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Cohort", "Shape"]


class Shape(NamedTuple):
    """What makes one synchronizer differ from another: the line's size, the ticket's weight, who may be in together."""

    size: int = 1
    weight: int = 1
    shared: bool = False
    hold: type[Hold] = Hold


class Cohort(Tickets):
    """Local tasks in one line with one weight and policy, and the tickets they share."""

    __slots__ = (
        "__weakref__",
        "_hold",
        "_linger",
        "assumes_company",
        "overrun",
        "owners",
        "renews",
        "waiting_life",
    )

    def __init__(self, engine: Engine, line: LineId, *, shape: Shape, policy: Policy) -> None:
        super().__init__(engine, line, shape=shape, policy=policy)
        self._hold = shape.hold
        self.renews = policy.renew
        self._linger = policy.linger
        self.waiting_life = waiting_life(policy.ttl)
        self.assumes_company = not isinstance(policy.waiting, Push) or not engine.backend.capabilities.pushes
        self.overrun = 0.0  # by which part the last batch was too long: the next one is so much shorter
        self.owners = engine.owners_of(line)

    # --- tasks come and go -------------------------------------------------------------------------------------

    def grab(self) -> Hold | None:
        """Enter at once where a place of ours is free and nobody waits for it."""
        if self.open and not (self.waiters and self.live()):
            place, clock = self.open.pop(), self.engine.now
            now = clock()
            if now < place.until:
                hold = self._hold
                return hold(self, place, now)
            self.open.append(place)
        return None

    def queue(self, waiter: Waiter, stand: bool = True) -> None:
        """Wait behind the others; with *stand* false, without a ticket for it until the next balance()."""
        engine = self.engine
        if engine.waiting >= engine.most_waiters:
            raise engine.too_many(self.line)
        engine.waiting += 1
        self.waiters.append(waiter)
        if self.open:  # free, but grab() found too little of its life left
            self._retire_place(self.open[-1])
        elif stand and not (self.inside or self.standing or self._retries):
            self.holder = None  # who was inside when we were last here says nothing of now
            self._stand()  # the first who comes: nothing to count
        elif stand and (not self.inside or self.most > 1):
            self.balance()

    def attempt(self) -> Waiter:
        """Wait for one answer at most, and for none where it is known already that there is no free place."""
        waiter = self.engine.loop.create_future()
        taken = len(self.inside) - len(self.open)
        if self.live() or taken >= self.most or any(place.answered for place in self.standing):
            waiter.set_result(None)
            return waiter
        self.tries.append(waiter)
        if self.open:  # free, but grab() found too little of its life left
            self._retire_place(self.open[-1])
        else:
            self.balance()
        return waiter

    def give_up(self, waiter: Waiter) -> None:
        """Take out a waiter that was cancelled or is too late; what it got meanwhile is given back."""
        if not waiter.cancelled():
            if waiter.exception() is not None:
                return
            if (own := waiter.result()) is not None:
                own._end(self.engine.now())
                return
        self.dead += 1
        self.engine.waiting -= 1
        if self.dead > 100 and self.dead > len(self.waiters) // 2:
            self.forget_dead()
        self.balance()

    def give_up_attempt(self, waiter: Waiter) -> None:
        """Do the same for one that only tried."""
        if waiter in self.tries:
            self.tries.remove(waiter)
            self.balance()
        elif not waiter.cancelled() and not waiter.exception() and (own := waiter.result()):
            own._end(self.engine.now())

    def give_back(self, hold: Hold, now: float) -> asyncio.Future[None] | None:
        """Take an ownership that has ended; return what there is to wait for on the server."""
        place = hold._place
        place.holds = ()
        if place.state is not INSIDE:
            return place.leave()
        if self.waiters:
            if self._hand_on(place, now):
                return None
            if self.waiters:
                return self._retire_place(place)
        if self._linger and not place.company and now < place.until:  # in case somebody comes
            place.idle_until = until = now + self._linger
            self.open.append(place)
            if place.slot is None or place.slot > until:
                self.engine.watchdog.watch(place, min(until, now + THIRD * place.life))
            return None
        return self._let_go(place)

    # --- a place reports ---------------------------------------------------------------------------------------

    def entered(self, place: Place, now: float) -> None:
        """Hear that *place* is inside: renew it first where little is left, else hand it out."""
        self.standing.pop(place, None)
        self.inside[place] = None
        has_time = place.deadline - now >= 0.5 * place.life
        if not has_time or not (self.renews or place.is_confirmed):
            self.engine.renew([place])
        if has_time:
            self.serve(place, now)

    def confirmed(self, place: Place) -> None:
        """Hear that *place* is inside for its full ttl: its batch begins when it is handed out, not when called."""
        if not place.was_served:
            place.company_since = now = self.engine.now()
            place.set_until()
            self.serve(place, now)

    def serve(self, place: Place, now: float) -> None:
        """Hand a fresh place to the first who waits."""
        if not self._hand_on(place, now):
            attempt = None if self.live() else self.next_attempt()
            if attempt is None:
                self._retire_place(place)
            else:
                self.engine.give(attempt, self._hold(self, place, now))
        if self.tries:
            self.answer_tries()
        if self.waiters or self.standing:
            self.balance()

    def place_gone(self, place: Place, reason: str) -> None:
        """Hear that *place* is lost: its holds are, and those who wait need another ticket."""
        self.standing.pop(place, None)
        self.disown(place)
        for own in list(place.holds):
            own._lose(reason)
        if not place.holds or place.unanswered:  # a join still on its way must not make it stand again
            place.leave()
        else:
            self.engine.lost(place)
        self.balance()

    def company_changed(self, place: Place) -> None:
        """Hear whether others wait; a place kept in case somebody comes is then given up."""
        if place.company:
            self.let_idle_go(place)

    def visit(self, place: Place, now: float) -> bool:
        """Look after a place inside; return whether to renew it."""
        if now >= place.deadline:
            place.lose(LEASE_ENDED)
            return False
        for own in list(place.holds):
            own._visit(now)
        if place.state is not INSIDE:
            return False
        if place in self.open and not place.holds and now >= place.idle_until:
            self._let_go(place)
            return False
        if place.holds and all(own._abandoned or own._loss is not None for own in place.holds):
            self.engine.watchdog.watch(place, place.deadline)
            return False
        return place.is_renewed

    def over_limit(self, own: Hold) -> None:
        """Hear that *own* was held for its longest time."""
        own._place.lose("it was held as long as max_hold allows")

    def asked_to_go(self, place: Place, reason: str) -> None:
        """Hear that somebody asks the holders to let go: what they release is not handed on here."""
        place.asked_to_go = True
        if place.state is INSIDE:  # else it was told before the answer that we are
            place.set_until()
        for own in place.holds:
            if own._revocation != reason:  # a call can be doubled
                own._revocation = reason
                self.engine.emit(HoldRevoked(*self.line, own._fence, reason))
        self.let_idle_go(place)

    def let_idle_go(self, place: Place) -> None:
        """Give up a place that was kept in case somebody comes."""
        if place in self.open and not place.holds:
            self._let_go(place)

    # --- inner -------------------------------------------------------------------------------------------------

    def _hand_on(self, place: Place, now: float) -> bool:
        """Hand *place* to the next who waits; return whether there is one, and time for it.

        Every hand-off comes here, so what `next_waiter` does is written out.
        """
        waiters = self.waiters
        if now >= place.until:
            return False
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                engine, hold = self.engine, self._hold
                engine.waiting -= 1
                give = engine.give
                give(waiter, hold(self, place, now))
                return True
            self.dead -= 1
        return False

    def _retire_place(self, place: Place) -> asyncio.Future[None] | None:
        """Decide what becomes of a place that is not handed on: it is replaced, or left."""
        if self.waiters:
            self.disown(place)
            # One in doubt has to be buried, one on another server left there: neither is replaced in one step.
            fallback = self.engine.fallback
            is_sure = not (place.unanswered or (fallback is not None and fallback.is_misplaced(place)))
            if is_sure and self.live() and self.wanted() > len(self.standing):
                self.overrun = place.overrun
                place.end()
                self._stand(instead_of=place)
                return None
        return self._let_go(place)

    def _let_go(self, place: Place) -> asyncio.Future[None]:
        left = place.leave()
        if self.open:
            self.disown(place)
        else:
            self.inside.pop(place, None)
        if self.waiters or self.tries or self.standing:
            self.balance()
        return left
