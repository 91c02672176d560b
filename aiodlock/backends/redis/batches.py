"""Renewing many tickets: one call per line, all on their way at once, one future for all answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from aiodlock._core.line import Answer, LineId, Ticket

__all__ = ["Batch"]

_MOST_IN_CALL = 100  # so that one call does not hold the server up


class Batch:
    """The answers to one renewal, put together without a task of their own."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self.answers: asyncio.Future[Sequence[Answer | None]] = asyncio.get_running_loop().create_future()
        self._tickets = tickets
        self._known: list[Answer | None] = [None] * len(tickets)
        self._open = 0
        self._error: BaseException | None = None
        if not tickets:
            self.answers.set_result(())

    def by_line(self) -> Iterator[tuple[LineId, Sequence[int]]]:
        """Yield the positions of the tickets of each line, in handy numbers."""
        lines: dict[LineId, list[int]] = {}
        for position, ticket in enumerate(self._tickets):
            lines.setdefault(ticket.line, []).append(position)
        for line, positions in lines.items():
            for start in range(0, len(positions), _MOST_IN_CALL):
                yield line, positions[start : start + _MOST_IN_CALL]

    def expect(self, positions: Sequence[int], part: asyncio.Future[list[Answer]]) -> None:
        """Wait for the answers of these tickets."""
        self._open += 1
        part.add_done_callback(lambda done: self._arrived(positions, done))

    def _arrived(self, positions: Sequence[int], part: asyncio.Future[list[Answer]]) -> None:
        self._open -= 1
        if error := part.exception():
            self._error = error
        else:
            for position, answer in zip(positions, part.result(), strict=True):
                self._known[position] = answer
        if not self._open and not self.answers.done():
            self._finish()

    def _finish(self) -> None:
        if self._error and not any(self._known):
            self.answers.set_exception(self._error)
        else:
            self.answers.set_result(self._known)
