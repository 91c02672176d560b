"""Shortcuts: where nobody else is, a join or a leave is one plain statement that the server keeps, parsed, not a call.

Only the server knows whether somebody is there, and a shortcut that meets somebody is one question more. So it is tried
in lines that we found free, and not for a while where we have met or heard of somebody.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial

from aiodlock._core.line import Answer, Inside, Ticket
from aiodlock.backends.mysql.batch import Shortcut
from aiodlock.backends.mysql.queries import line_name, micros

__all__ = ["SHORTCUTS", "Shortcuts"]

SHORTCUTS = ("enter", "go")  # of ``queries.sql``, to be prepared by every link

_PAUSE = 5.0  # seconds without shortcuts in a line after somebody was there
_MOST_LINES = 10_000  # of which we know that they were free


class Shortcuts:
    """What one client knows of lines, to say which verb may go by a shortcut."""

    def __init__(self, client: bytes) -> None:
        self._client = client
        self._free_from: dict[bytes, float] = {}  # by a line's name: from when on it may be free

    def of_join(self, line: bytes, ticket: Ticket, owner: bytes) -> Shortcut[Answer] | None:
        """Return the shortcut of a join that finds nobody, where that is likely."""
        if ticket.weight > ticket.size or not self._is_free(line):
            return None
        values: dict[str, bytes | int] = {
            "line": line,
            "id": ticket.id.encode(),
            "weight": ticket.weight,
            "size": ticket.size,
            "ttl": micros(ticket.ttl),
            "client": self._client,
            "owner": owner,
        }
        return Shortcut(
            "enter",
            values,
            lambda epoch, via: Inside(epoch, ticket.ttl, False, ticket.size, via),
            partial(self.met_somebody, line),
        )

    def of_leave(self, line: bytes, ticket: Ticket) -> Shortcut[None] | None:
        """Return the shortcut of a leave for which nobody waits, where that is likely."""
        if not self._is_free(line):
            return None
        values = {"line": line, "id": ticket.id.encode(), "client": self._client}
        return Shortcut("go", values, lambda made, via: None, partial(self.met_somebody, line))

    def joined(self, ticket: Ticket, answer: Answer) -> None:
        """Hear what a call answered: whether the line is free."""
        line = line_name(ticket.line)
        if not isinstance(answer, Inside) or answer.company:
            self.met_somebody(line)
        elif line not in self._free_from:
            if len(self._free_from) >= _MOST_LINES:
                self._free_from.clear()
            self._free_from[line] = 0.0

    def met_somebody(self, line: bytes) -> None:
        """Hear that others are in a line."""
        if line in self._free_from:
            self._free_from[line] = asyncio.get_running_loop().time() + _PAUSE

    def _is_free(self, line: bytes) -> bool:
        return self._free_from.get(line, math.inf) <= asyncio.get_running_loop().time()
