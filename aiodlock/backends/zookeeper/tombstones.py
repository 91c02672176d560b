"""Ids that never stand again, each remembered for its time: a join that comes late meets its own."""

from __future__ import annotations

import heapq

from aiodlock._core.line import GoneWhy, TicketId

__all__ = ["Tombstones"]


class Tombstones:
    """Why tickets of this client are gone."""

    def __init__(self) -> None:
        self._why: dict[TicketId, tuple[float, GoneWhy]] = {}
        self._ends: list[tuple[float, TicketId]] = []

    def __len__(self) -> int:
        return len(self._ends)

    def set(self, id_: TicketId, why: GoneWhy, *, now: float, life: float) -> None:
        """Remember *why* for a *life*; forget those whose time is over."""
        self._why[id_] = now + life, why
        heapq.heappush(self._ends, (now + life, id_))
        while self._ends[0][0] <= now:
            _, over = heapq.heappop(self._ends)
            if over in self._why and self._why[over][0] <= now:
                del self._why[over]

    def why(self, id_: TicketId, *, now: float) -> GoneWhy | None:
        """Return why a ticket is gone; None if it is not known to be."""
        until, why = self._why.get(id_, (now, None))
        return why if until > now else None
