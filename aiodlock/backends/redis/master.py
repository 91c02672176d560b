"""One of the independent servers that Redlock asks: a server of its own, a few verbs more, and what it is owed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, NamedTuple

from aiodlock._core.line import Answer, LineId, Ticket, TicketId
from aiodlock.backends.base import OnCall, as_future
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.backend import RedisBackend
from aiodlock.backends.redis.scripts import load, micros, to_answer, to_none

__all__ = ["Master"]

_EPOCH, _BELL = load("epoch"), load("bell")


class _Debt(NamedTuple):
    """A leave that is not confirmed, and until when the ticket may live."""

    ticket: Ticket
    bury: bool
    until: float


class Master(RedisBackend):
    """It is opened in the background: what is sent meanwhile goes out when the first attempt has succeeded."""

    def __init__(self, address: Address, **settings: Any) -> None:
        super().__init__(address, **settings)
        self._debts: dict[TicketId, _Debt] = {}
        self._under_way = 0  # leaves for sure that are not answered
        self._owes_nothing = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether what is asked now goes out."""
        return self._node.is_up

    async def open(self, on_call: OnCall) -> None:
        self._calls.on_call = on_call
        self._node.start()

    def raise_epoch(self, ticket: Ticket, epoch: int) -> Awaitable[Answer]:
        """Give an inside ticket a larger epoch, and let no later ticket here have a smaller one."""
        return self._call(_EPOCH, ticket.line, ticket.id, epoch, decode=to_answer)

    def leave_for_sure(self, ticket: Ticket, *, bury: bool) -> asyncio.Future[None]:
        """Leave; unless that is confirmed it is owed, as long as the ticket may live here."""
        return self._pay(_Debt(ticket, bury, asyncio.get_running_loop().time() + ticket.ttl))

    def pay_debts(self) -> None:
        """Leave again what is owed, if the server is there to hear it."""
        if not (self._debts and self.is_up):
            return
        debts, self._debts = self._debts, {}
        now = asyncio.get_running_loop().time()
        for debt in debts.values():
            if debt.until > now:
                self._pay(debt)

    async def settle(self, *, within: float) -> None:
        """Leave again what is owed, and wait so long for the server to confirm it; it may have to be back first."""
        self.pay_debts()
        if self._debts or self._under_way:
            self._owes_nothing.clear()
            try:
                async with asyncio.timeout(within):
                    await self._owes_nothing.wait()
            except TimeoutError:
                pass  # a server that stays away ends the tickets by their lives

    def _pay(self, debt: _Debt) -> asyncio.Future[None]:
        leaving = as_future(self.leave(debt.ticket, bury=debt.bury))
        self._under_way += 1
        leaving.add_done_callback(partial(self._paid, debt))
        return leaving

    def _paid(self, debt: _Debt, leaving: asyncio.Future[None]) -> None:
        self._under_way -= 1
        if leaving.cancelled() or leaving.exception():
            self._debts[debt.ticket.id] = debt
        elif not (self._debts or self._under_way):
            self._owes_nothing.set()

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
        done.future.add_done_callback(_look_at)


def _look_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
