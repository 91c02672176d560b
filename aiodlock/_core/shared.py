"""The cohort of readers: local tasks that may be inside one place together."""

from __future__ import annotations

import asyncio

from aiodlock._core.cohort import Cohort
from aiodlock._core.hold import Hold
from aiodlock._core.line import Ticket
from aiodlock._core.place import INSIDE, Place

__all__ = ["SharedCohort"]


class SharedCohort(Cohort):
    """Hands one place to any number of local tasks.

    A place takes new readers while nobody else waits; then it closes, new readers stand with a new ticket, and it
    leaves with its last reader.
    """

    __slots__ = ()

    def wanted(self) -> int:
        return 1 if (self.live() or self.tries) and not self.open else 0

    def grab(self) -> Hold | None:
        """Join those inside at once, where nobody waits."""
        if self.open and not self.live() and (now := self.engine.now()) < self.open[-1].until:
            return self._own(self.open[-1], now)
        return None

    def give_back(self, hold: Hold, now: float) -> asyncio.Future[None] | None:
        place = hold._place
        del _readers(place)[hold]
        if place.holds:
            return None
        if self.waiters and place.state is INSIDE:  # they stand with a ticket of their own
            return self._retire_place(place)
        if place in self.open:
            self.open.remove(place)
        return super().give_back(hold, now)

    def serve(self, place: Place, now: float) -> None:
        """Let everybody in who waits, and whoever comes while nobody else does."""
        while place.until and (waiter := self.next_waiter() or self.next_attempt()) is not None:
            self.engine.give(waiter, self._own(place, now))
        if not place.holds:
            self._let_go(place)
        elif not place.company and now < place.until:
            self.open.append(place)
        self.balance()

    def adopt(self, place: Place) -> None:
        """Take over the place of a writer that goes on reading."""
        writers, place.cohort = place.cohort, self
        place.ticket = Ticket(self._wish, place.ticket.id)
        writers.disown(place)
        self.inside[place] = None
        place.holds = dict.fromkeys(place.holds)
        for own in place.holds:
            own._cohort = self
        place.set_until()
        if not place.company and not self.live():
            self.open.append(place)
        writers.balance()

    def company_changed(self, place: Place) -> None:
        """Hear whether others wait: then no new reader enters."""
        if place.company and place in self.open:
            self._close(place)

    def over_limit(self, own: Hold) -> None:
        own._lose("it was held as long as max_hold allows")

    def _own(self, place: Place, now: float) -> Hold:
        readers = _readers(place)
        own = self._hold(self, place, now)
        place.holds = readers
        readers[own] = None
        return own

    def _retire_place(self, place: Place) -> asyncio.Future[None] | None:
        if place.holds:  # too little is left of its life for another reader, or its count is used up
            self._close(place)
            return None
        return super()._retire_place(place)

    def _close(self, place: Place) -> None:
        self.open.remove(place)
        if not place.holds:
            self._let_go(place)
        self.balance()


def _readers(place: Place) -> dict[Hold, None]:
    return place.holds if isinstance(place.holds, dict) else {}
