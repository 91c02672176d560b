"""One watchdog per client: visits every place when it is due, and renews those that ask for it in one call.

Renewals are not urgent: their due times are rounded down to slots, so that places of one slot go out as one batch and
ten thousand holds need one timer. A look at the end of somebody's life is exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiodlock.clock import Clock, Timer

if TYPE_CHECKING:
    from aiodlock._core.place import Place

__all__ = ["Watchdog"]

_FEW = 256


class Watchdog:
    """Calls `visit` with all places that are due."""

    def __init__(self, clock: Clock, visit: Callable[[list[Place], float], None]) -> None:
        self._clock = clock
        self._visit = visit
        self._slots: dict[float, dict[Place, None]] = {}  # dicts as ordered sets: a seed then replays exactly
        self._order: list[float] = []  # heap of the keys of _slots
        self._most = _FEW  # slots, until those that nobody is in are dropped
        self._timer: Timer | None = None
        self._armed_for = float("inf")

    def watch(self, place: Place, due: float, slack: float = 0.0) -> None:
        """Visit *place* at *due*, or up to *slack* before it; a visit planned before this one is forgotten."""
        slot = due - due % slack if slack else due
        if place.slot is not None:
            if place.slot == slot:
                return
            self.forget(place)
        members = self._slots.get(slot)
        if members is None:
            if len(self._slots) >= self._most:
                self._drop_empty()
            members = self._slots[slot] = {}
            heapq.heappush(self._order, slot)
        members[place] = None
        place.slot = slot
        if slot < self._armed_for:
            self._arm(slot)

    def forget(self, place: Place) -> None:
        if place.slot is not None:
            del self._slots[place.slot][place]
            place.slot = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        for place in [place for members in self._slots.values() for place in members]:
            place.slot = None
        self._slots.clear()
        self._order.clear()

    def _drop_empty(self) -> None:
        """Forget slots that nobody is in any more; seldom enough to cost each of them little."""
        self._slots = {slot: members for slot, members in self._slots.items() if members}
        self._order = sorted(self._slots)
        self._most = max(_FEW, 2 * len(self._slots))

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = when
        self._timer = self._clock.call_at(when, self._wake)

    def _wake(self) -> None:
        self._timer, self._armed_for = None, float("inf")
        now = self._clock.now()
        due: list[Place] = []
        while self._order and self._order[0] <= now:
            members = self._slots.pop(heapq.heappop(self._order))
            for place in members:
                place.slot = None
            due += members
        if due:
            self._visit(due, now)
        while self._order and not self._slots[self._order[0]]:  # its places were forgotten or planned anew
            del self._slots[heapq.heappop(self._order)]
        if self._order and self._order[0] < self._armed_for:
            self._arm(self._order[0])
