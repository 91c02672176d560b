"""One of the independent servers that Redlock asks: a server of its own, and three verbs more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from aiodlock._core.line import Answer, LineId, Ticket
from aiodlock.backends.base import OnCall
from aiodlock.backends.redis.backend import RedisBackend
from aiodlock.backends.redis.scripts import load, micros, to_answer, to_none

__all__ = ["Master"]

_EPOCH, _BELL = load("epoch"), load("bell")


class Master(RedisBackend):
    """It is opened in the background: what is sent meanwhile goes out when the first attempt has succeeded."""

    async def open(self, on_call: OnCall) -> None:
        self._calls.on_call = on_call
        self._node.start()

    def raise_epoch(self, ticket: Ticket, epoch: int) -> Awaitable[Answer]:
        """Give an inside ticket a larger epoch, and let no later ticket here have a smaller one."""
        return self._call(_EPOCH, ticket.line, ticket.id, epoch, decode=to_answer)

    def hang_up(self, line: LineId, *, life: float) -> None:
        """Ask to be told (`Opened`) when somebody rings for *line*, for *life* seconds."""
        self._at_bell(line, self._calls.channel, life=life)

    def ring(self, line: LineId) -> None:
        """Tell everybody who hung up that *line* may be free. A hint: nobody waits for its answer."""
        self._at_bell(line, b"", life=0.0)

    def _at_bell(self, line: LineId, channel: bytes, *, life: float) -> None:
        if not self.capabilities.pushes:
            return
        name = self._keys.name(line)
        bell = LineId(f"{line.kind} bell", line.key)
        done = self._call(_BELL, bell, name.clear or name.key, channel, micros(life), decode=to_none)
        done.add_done_callback(_look_at)


def _look_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
