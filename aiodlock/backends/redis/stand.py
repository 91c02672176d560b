"""What a Redlock client remembers of one ticket: which try is under way, and what each server may still have of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from aiodlock._core.line import Answer, Call, Called, Inside, LineId, Ticket, TicketId

__all__ = ["Stand", "base_id"]

_MARK = "~"  # between a ticket's id and the number of its try


def base_id(one: TicketId) -> TicketId:
    """Return the ticket that a try belongs to."""
    return TicketId(one.rpartition(_MARK)[0])


class Stand:
    """One ticket from its first try to its end. `turn` is held by whoever tries: one at a time."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.turn = asyncio.Lock()
        self.tries = 0
        self.current = TicketId("")  # the id of the latest try
        self.epoch = 0  # as written back to a majority; 0: not inside
        self.doubt: set[int] = set()  # servers that were asked and have not answered the latest try
        self.inside: set[int] = set()  # servers that have answered that it is inside
        self.lost: set[int] = set()  # servers that do not have it inside any more
        self.is_over = False
        self._asked: dict[str, Counter[int]] = {}  # how often each server has told the holder to go, by reason
        self._hint: asyncio.TimerHandle | None = None

    @property
    def anywhere(self) -> set[int]:
        """Servers that may have the latest try inside."""
        return self.doubt | self.inside

    def next_try(self, servers: Iterable[int]) -> Ticket:
        """Return the ticket to try with, on these servers, by an id that was never used."""
        self.tries += 1
        self.current = TicketId(f"{self.ticket.id}{_MARK}{self.tries}")
        self.doubt, self.inside, self.lost = set(servers), set(), set()
        return replace(self.ticket, id=self.current)

    def answered(self, number: int, one: TicketId, answer: asyncio.Future[Answer]) -> None:
        """Take the answer of one server to a try, be it late: then it is not in doubt there."""
        if one == self.current and not answer.cancelled() and answer.exception() is None:
            self.doubt.discard(number)
            if isinstance(answer.result(), Inside):
                self.inside.add(number)

    def waits_for(self, line: LineId) -> bool:
        return self.ticket.line == line and not self.epoch and not self.is_over

    def hint(self, delay: float, tell: Callable[[Call], None]) -> None:
        """Have the client look soon; a hint while one is planned changes nothing."""
        if self._hint is None:
            # An epoch that nobody has: the call only means that looking is worth while.
            call = Called(self.ticket.line, self.ticket.id, 0)
            self._hint = asyncio.get_running_loop().call_later(delay, tell, call)

    def forget_hint(self) -> None:
        if self._hint is not None:
            self._hint.cancel()
            self._hint = None

    def is_asked_anew(self, number: int, reason: str, majority: int) -> bool:
        """Hear from one server that the holder is asked to go; tell whether that makes it a majority just now."""
        asked = self._asked.setdefault(reason, Counter())
        asked[number] += 1
        return sum(times >= asked[number] for times in asked.values()) == majority
