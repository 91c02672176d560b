"""The checkout: takes of many tasks that come in one step of the loop go out as one call.

Each caller waits on a future of its own, so a cancel is a local act; it counts among those who wait until there is an
answer. A call without one is sent again, without those whom nobody waits for any more; an order whose outcome stays
unknown is noted, so that the next try says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from aiodlock._core.stock import Differs, Sale, Take
from aiodlock.backends.base import Stockroom
from aiodlock.errors import BackendError, BackendUnavailableError, ClientClosedError, TooManyWaitersError

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Checkout"]

_MOST_IN_CALL = 200  # so that one call does not hold the server up, and it works while we pack the next
_MOST_IN_DOUBT = 10_000

_Waiter: TypeAlias = "asyncio.Future[Sale | Differs]"


class _Wish:
    """One order on its way, and who waits for it."""

    __slots__ = ("more", "take", "waiter")

    def __init__(self, take: Take, waiter: _Waiter) -> None:
        self.take = take
        self.waiter = waiter
        self.more: list[_Waiter] | None = None  # who asked for the same meanwhile

    @property
    def is_wanted(self) -> bool:
        return not self.waiter.done() or any(not waiter.done() for waiter in self.more or ())


class Checkout:
    """Where the tasks of one client ask for orders of one stock."""

    def __init__(self, engine: Engine, room: Stockroom, *, patience: float) -> None:
        self.engine = engine
        self._room = room
        self._patience = patience
        self._queue: list[_Wish] = []
        self._wishes: dict[str, _Wish] = {}  # by order: those that are queued or on their way
        self._in_doubt: dict[str, None] = {}  # orders that were sent, and nobody knows what came of them

    def take(self, take: Take) -> _Waiter:
        """Ask for an order; one that is on its way already is asked for once."""
        engine = self.engine
        if engine.waiting >= engine.most_waiters:
            raise TooManyWaitersError(take.order, f"{engine.waiting} tasks wait already: shed load")
        engine.waiting += 1
        waiter: _Waiter = asyncio.Future(loop=engine.loop)
        order = take[0]
        known = self._wishes.get(order)
        if known is not None and self._is_joined(known, take, waiter):
            return waiter
        if known is not None or order in self._in_doubt:
            take = take._replace(again=True)
        if not self._queue:
            engine.loop.call_soon(self._send)
        wish = self._wishes[order] = _Wish(take, waiter)
        self._queue.append(wish)
        return waiter

    def _is_joined(self, wish: _Wish, take: Take, waiter: _Waiter) -> bool:
        # One that nobody waits for any more may have been left out of its call, and is not answered.
        if not wish.is_wanted or wish.take._replace(again=False) != take:
            return False
        wish.more = wish.more or []
        wish.more.append(waiter)
        return True

    def _send(self) -> None:
        queue, self._queue = self._queue, []
        for start in range(0, len(queue), _MOST_IN_CALL):
            call = _Call(self._room, queue[start : start + _MOST_IN_CALL])
            work = self.engine.repeat(call.send, within=self._patience)
            self.engine.work.own(work, partial(self._answered, call))

    def _answered(self, call: _Call, answers: Sequence[Sale | Differs] | BackendError) -> None:
        self._forget(call.all)
        if isinstance(answers, BackendError):
            self._failed(call, answers)
            return
        doubts = self._in_doubt
        for wish, answer in zip(call.sent, answers, strict=True):
            if doubts:
                doubts.pop(wish.take[0], None)
            if not wish.waiter.done():
                wish.waiter.set_result(answer)
            for waiter in wish.more or ():
                if not waiter.done():
                    waiter.set_result(answer)
        self._note_doubt(call.dropped)

    def _forget(self, answered: Sequence[_Wish]) -> None:
        wishes, waiting = self._wishes, len(answered)
        for wish in answered:
            order = wish.take[0]
            if wishes.get(order) is wish:  # not one that was asked for again meanwhile
                del wishes[order]
            if wish.more:
                waiting += len(wish.more)
        self.engine.waiting -= waiting

    def _failed(self, call: _Call, error: BackendError) -> None:
        self._note_doubt(call.all)
        for wish in call.all:
            for waiter in (wish.waiter, *(wish.more or ())):
                if not waiter.done():
                    waiter.set_exception(self._unknown(wish.take, error))

    def _unknown(self, take: Take, error: BackendError) -> Exception:
        if not self.engine.is_open:
            return ClientClosedError(f"the client was closed before order {take.order!r} was answered")
        if not isinstance(error, BackendUnavailableError):
            return error
        advice = "it may or may not be taken: take it again under its id, or put it back"
        unknown = BackendUnavailableError(f"no answer to order {take.order!r}, {advice} ({error})")
        unknown.__cause__ = error
        return unknown

    def _note_doubt(self, wishes: Sequence[_Wish]) -> None:
        self._in_doubt.update((wish.take.order, None) for wish in wishes)
        while len(self._in_doubt) > _MOST_IN_DOUBT:
            del self._in_doubt[next(iter(self._in_doubt))]


class _Call:
    """One call for many orders, repeated until it is answered."""

    def __init__(self, room: Stockroom, wishes: list[_Wish]) -> None:
        self.all = wishes
        self.sent: list[_Wish] = []
        self.dropped: list[_Wish] = []  # sent before, and wanted no more
        self._room = room
        self._is_again = False

    async def send(self) -> Sequence[Sale | Differs]:
        before, again = self.sent, self._is_again
        asked = before if again else self.all
        self.sent = [wish for wish in asked if not wish.waiter.done() or wish.is_wanted]  # a call for each is not free
        if again:
            self.dropped += [wish for wish in before if not wish.is_wanted]
            for wish in self.sent:
                wish.take = wish.take._replace(again=True)
        self._is_again = True
        if not self.sent:
            return ()
        return await self._room.take([wish.take for wish in self.sent])
