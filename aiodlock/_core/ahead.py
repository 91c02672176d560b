"""Waking ahead: short sections follow one another in one step of the loop.

A task that is handed a place runs in the loop's next step, and that step is most of what a contended hold costs. So
the next few in the queue are woken together with the first. A section without an await is over before the next task
runs, and that one finds its turn come: a dozen sections take one step. Where a section lasts, those behind it find
that they are too early and wait as before; nobody is then woken ahead for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

from aiodlock._core.ownership import COMING, HELD

if TYPE_CHECKING:
    from aiodlock._core.cohort import Cohort
    from aiodlock._core.hold import Hold
    from aiodlock._core.place import Place

__all__ = ["Ahead", "Fixed", "Waiter"]

_MOST = 15  # behind the first: more would hardly be faster
_LONG = 0.001  # seconds that the sections of one step may take together: others want the loop too
_PAUSE = 128  # hand-offs without another attempt after somebody was too early


Waiter: TypeAlias = "asyncio.Future[Hold | None]"  # None: not now (a try), or not in time


class Fixed(asyncio.Future["Hold | None"]):
    """A waiter that is not woken before its turn: whoever it is for would not wait again."""


class Ahead:
    """Those of a cohort who were woken before their turn; they come before all others of its queue."""

    __slots__ = ("_early", "_number", "_pause", "_woken_at", "coming")

    def __init__(self) -> None:
        self.coming: list[Hold] = []  # in the order of their turns
        self._early: dict[Hold, Waiter] = {}  # what those wait for who ran before their turn
        self._number = 1
        self._pause = 0
        self._woken_at = 0.0

    def wake(self, cohort: Cohort, place: Place, now: float) -> None:
        """Wake the next few as well, now that the first was handed *place*; more of them while that goes well."""
        if self._pause:
            self._pause -= 1
            return
        took, self._woken_at = now - self._woken_at, now
        self._number = min(2 * self._number, _MOST) if took < _LONG else max(1, self._number // 2)
        waiters, coming, hold = cohort.waiters, self.coming, cohort.shape.hold
        for _ in range(min(self._number, len(waiters))):
            waiter = waiters[0]
            if waiter.done() or type(waiter) is Fixed:
                break
            del waiters[0]
            own = hold(cohort, place, 0, now)
            own._state = COMING
            own._simple = False
            coming.append(own)
            waiter.set_result(own)

    def next(self, place: Place, now: float) -> Hold:
        """Give *place* to the first of those who come."""
        own = self.coming.pop(0)
        own._place = place
        own._since = now
        own._state = HELD
        own._simple = True
        own.fence = place.fence = place.fence + 1  # type: ignore[misc] # final from now on
        place.holds = (own,)
        if self._early and (turn := self._early.pop(own, None)) is not None and not turn.done():
            turn.set_result(own)
        return own

    def too_early(self, own: Hold) -> Waiter | None:
        """Return what a task waits for that runs before its turn; None if it has to queue again."""
        if own not in self.coming:
            return None
        if own._place.holds:
            self._number, self._pause = 1, _PAUSE
        turn = self._early[own] = asyncio.Future()
        return turn

    def strike(self, own: Hold) -> bool:
        """Take out one who gave up; return whether it was still to come."""
        if own not in self.coming:
            return False
        self.coming.remove(own)
        self._early.pop(own, None)
        return True

    def clear(self) -> Collection[Waiter]:
        """Take out all; return what they wait for. Who has not run yet queues again."""
        self.coming.clear()
        waiters, self._early = self._early, {}
        return waiters.values()
