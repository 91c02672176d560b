"""Shortcuts: where nobody else is, a join or a leave is one plain statement, not a call of a procedure.

Only the server knows whether somebody is there, and a shortcut that meets somebody is one question more. So it is tried
in lines that we found free, by those who were alone when we last heard of them.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial

from aiodlock._core.line import Answer, Inside, LineId, Ticket, TicketId
from aiodlock.backends.mysql.node import Shortcut
from aiodlock.backends.mysql.queries import line_name, micros, query

__all__ = ["Shortcuts"]

_PAUSE = 5.0  # seconds without shortcuts into a line after one that met somebody
_MOST_LINES = 10_000  # of which we know that they were free


class Shortcuts:
    """What one client knows of lines and tickets, to say which verb may go by a shortcut."""

    def __init__(self, client: bytes) -> None:
        self._client = client
        self._tried_from: dict[LineId, float] = {}  # of lines that were free: the instant
        self._alone: set[TicketId] = set()  # inside, probably in the line's row, and no company heard of

    def of_join(self, ticket: Ticket, owner: bytes) -> Shortcut[Answer] | None:
        """Return the shortcut of a join that finds nobody, where that is likely."""
        now = asyncio.get_running_loop().time()
        if ticket.weight > ticket.size or self._tried_from.get(ticket.line, math.inf) > now:
            return None

        def entered(epoch: int, via: int) -> Answer:
            self._alone.add(ticket.id)
            return Inside(epoch, ticket.ttl, False, ticket.size, via)

        statement = query(
            "enter",
            line=line_name(ticket.line),
            id=ticket.id.encode(),
            weight=ticket.weight,
            size=ticket.size,
            ttl=micros(ticket.ttl),
            client=self._client,
            owner=owner,
        )
        return Shortcut(statement, entered, partial(self._tried_from.__setitem__, ticket.line, now + _PAUSE))

    def of_leave(self, ticket: Ticket) -> Shortcut[None] | None:
        """Return the shortcut of a leave whose ticket nobody is known to wait for; it is not known any more then."""
        if ticket.id not in self._alone:
            return None
        self._alone.remove(ticket.id)
        statement = query("go", line=line_name(ticket.line), id=ticket.id.encode(), client=self._client)
        return Shortcut(statement, lambda made, via: None)

    def joined(self, ticket: Ticket, answer: Answer) -> None:
        """Hear what a call answered: the first visit of a line tells whether it is free."""
        if not isinstance(answer, Inside) or answer.company or ticket.line in self._tried_from:
            return
        if len(self._tried_from) >= _MOST_LINES:
            self._tried_from.clear()
        self._tried_from[ticket.line] = 0.0
        if ticket.weight == answer.size:
            self._alone.add(ticket.id)

    def not_alone(self, id_: TicketId) -> None:
        """Hear that a ticket has company, or is gone."""
        self._alone.discard(id_)
