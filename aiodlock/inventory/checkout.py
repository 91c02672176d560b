"""The checkout: takes of many tasks that come in one step of the loop go out as one call.

Each caller waits on a future of its own, so a cancel is a local act; it counts among those who wait until there is an
answer. A call without one is sent again, without those whom nobody waits for any more; an order whose outcome stays
unknown is noted, so that the next try says so.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, TypeAlias

from aiodlock._core.routing import segment_of
from aiodlock._core.stock import Differs, Sale, Take, Taken, Terms
from aiodlock.backends.base import Stockroom
from aiodlock.errors import BackendError, BackendUnavailableError, ClientClosedError, TooManyWaitersError
from aiodlock.events import StockTaken
from aiodlock.policy import check_count, check_key

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Checkout"]

_MOST_IN_CALL = 200  # so that one call does not hold the server up, and it works while we pack the next
_MOST_IN_DOUBT = 10_000
_SURELY_FIT = 255  # bytes of two names together: neither is longer than a key may be

_new = tuple.__new__  # a named tuple's own constructor costs more than all that is checked of a take

_Waiter: TypeAlias = Future[Sale]
_Wish: TypeAlias = tuple[Take, _Waiter]  # an order on its way, and who asked for it first; a plain pair costs least


class Checkout:
    """Where the tasks of one client ask for orders of one stock."""

    def __init__(self, at_work: Callable[[], Engine], room: Stockroom, terms: Terms, *, patience: float) -> None:
        self.engine = at_work()
        self._thread = get_ident()
        self._at_work = at_work
        self._room = room
        self._terms = terms
        self._patience = patience
        self._queue: list[_Wish] = []
        self._wishes: dict[str, _Wish] = {}  # by order: those that are queued or on their way
        self._more: dict[_Waiter, list[_Waiter]] = {}  # who asked for the same meanwhile, by who asked first
        self._in_doubt: dict[str, None] = {}  # orders that were sent, and nobody knows what came of them

    def take(self, buyer: str, order: str, quantity: int, hold_for: float = 0.0) -> _Waiter:
        """Ask for an order; one that is on its way already is asked for once."""
        engine, queue, wishes = self.engine, self._queue, self._wishes
        # Which loop runs here is a system call to ask; that ours runs, and here, is as good.
        if not engine.is_open or self._thread != get_ident() or not engine.loop.is_running():
            self._at_work()  # raises where it is not at work
        _check(buyer, order, quantity)
        if engine.waiting >= engine.most_waiters:
            raise TooManyWaitersError(
                self._terms.key, f"stock {self._terms.key!r}: {engine.waiting} tasks wait already, shed load"
            )
        engine.waiting += 1
        home = segment_of(buyer, self._terms.segments)
        take = _new(Take, (order, buyer, quantity, home, hold_for, False))
        waiter: _Waiter = Future(loop=engine.loop)
        if order in wishes or order in self._in_doubt:
            if self._is_joined(take, waiter):
                return waiter
            take = take._replace(again=True)
        if not queue:
            engine.loop.call_soon(self._send)
        wishes[order] = wish = (take, waiter)
        queue.append(wish)
        return waiter

    def _is_joined(self, take: Take, waiter: _Waiter) -> bool:
        known = self._wishes.get(take.order)
        # One that nobody waits for any more may have been left out of its call, and is not answered.
        if known is None or not self._is_wanted(known) or known[0]._replace(again=False) != take:
            return False
        self._more.setdefault(known[1], []).append(waiter)
        return True

    def _is_wanted(self, wish: _Wish) -> bool:
        return any(not waiter.done() for waiter in (wish[1], *self._more.get(wish[1], ())))

    def _send(self) -> None:
        queue, self._queue = self._queue, []
        for start in range(0, len(queue), _MOST_IN_CALL):
            call = _Call(self._room, queue[start : start + _MOST_IN_CALL], self._is_wanted)
            work = self.engine.repeat(call.send, within=self._patience)
            self.engine.work.own(work, partial(self._answered, call))

    def _answered(self, call: _Call, answers: Sequence[Sale] | Differs | BackendError) -> None:
        more = self._forget(call.all)
        if isinstance(answers, Differs | BackendError):
            self._failed(call, more, answers)
            return
        for (_, waiter), answer in zip(call.sent, answers, strict=True):
            if not waiter.done():
                waiter.set_result(answer)
        if more or self._in_doubt or self.engine.is_loud:
            self._tell_others(call.sent, more, answers)
        self._note_doubt(call.dropped)

    def _tell_others(
        self, sent: Sequence[_Wish], more: Mapping[_Waiter, list[_Waiter]], answers: Sequence[Sale]
    ) -> None:
        for (take, first), answer in zip(sent, answers, strict=True):
            self._in_doubt.pop(take.order, None)
            for waiter in more.get(first, ()):
                if not waiter.done():
                    waiter.set_result(answer)
            if isinstance(answer, Taken):
                self.engine.emit(StockTaken(self._terms.key, take.order, take.quantity, answer.segment))

    def _forget(self, answered: Sequence[_Wish]) -> Mapping[_Waiter, list[_Waiter]]:
        """Know nothing more of wishes that were on their way; return who else asked for each."""
        wishes = self._wishes
        for wish in answered:
            order = wish[0][0]
            if wishes.get(order) is wish:  # not one that was asked for again meanwhile
                del wishes[order]
        asked_too = [waiter for _, waiter in answered if waiter in self._more] if self._more else ()
        more = {waiter: self._more.pop(waiter) for waiter in asked_too}
        self.engine.waiting -= len(answered) + sum(map(len, more.values()))
        return more

    def _failed(self, call: _Call, more: Mapping[_Waiter, list[_Waiter]], why: Differs | BackendError) -> None:
        if isinstance(why, BackendError):
            self._note_doubt(call.all)
        for take, first in call.all:
            for waiter in (first, *more.get(first, ())):
                if not waiter.done():
                    error = self._unknown(take, why) if isinstance(why, BackendError) else why.refusal(self._terms)
                    waiter.set_exception(error)

    def _unknown(self, take: Take, error: BackendError) -> Exception:
        if not self.engine.is_open:
            return ClientClosedError(f"the client was closed before {self._named(take)} was answered")
        if not isinstance(error, BackendUnavailableError):
            return error
        advice = "it may or may not be taken: take it again under its id, or put it back"
        unknown = BackendUnavailableError(f"no answer to {self._named(take)}, {advice} ({error})")
        unknown.__cause__ = error
        return unknown

    def _named(self, take: Take) -> str:
        return f"order {take.order!r} of stock {self._terms.key!r}"

    def _note_doubt(self, wishes: Sequence[_Wish]) -> None:
        self._in_doubt.update((take.order, None) for take, _ in wishes)
        while len(self._in_doubt) > _MOST_IN_DOUBT:
            del self._in_doubt[next(iter(self._in_doubt))]


def _check(buyer: str, order: str, quantity: int) -> None:
    """Check a wish; one look at both names is almost always enough."""
    if type(quantity) is not int or quantity != 1:
        check_count("quantity", quantity)
    if type(buyer) is str and type(order) is str and buyer and order:
        both = buyer + order
        if len(both) <= _SURELY_FIT and both.isascii() and both.isprintable():
            return
    check_key(buyer, "buyer")
    check_key(order, "order")


class _Call:
    """One call for many orders, repeated until it is answered."""

    def __init__(self, room: Stockroom, wishes: list[_Wish], is_wanted: Callable[[_Wish], bool]) -> None:
        self.all = wishes
        self.sent: list[_Wish] = []
        self.dropped: list[_Wish] = []  # sent before, and wanted no more
        self._room = room
        self._is_wanted = is_wanted

    async def send(self) -> Sequence[Sale] | Differs:
        if self.sent:
            self.dropped += [wish for wish in self.sent if not self._is_wanted(wish)]
            self.sent = [(take._replace(again=True), waiter) for take, waiter in filter(self._is_wanted, self.sent)]
        else:
            self.sent = [wish for wish in self.all if not wish[1].done() or self._is_wanted(wish)]
        return await self._room.take([take for take, _ in self.sent]) if self.sent else ()
