"""Stock in Redis: verbs become script calls over three keys of one slot; their answers are decoded here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from aiodlock._core.line import LineId
from aiodlock._core.stock import (
    AlreadyTaken,
    Audit,
    Differs,
    Entry,
    Move,
    Movement,
    Remaining,
    Returned,
    Sale,
    SoldOut,
    Take,
    Taken,
    Terms,
)
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import Script, bulk, load
from aiodlock.errors import BackendUnavailableError

__all__ = ["RedisStockroom"]

_T = TypeVar("_T")

_TAKE, _CONFIRM, _PUT_BACK = load("take"), load("confirm"), load("put_back")
_RESTOCK, _AUDIT, _OUTBOX = load("restock"), load("audit"), load("outbox")
_TAKE_HEAD = _TAKE.head(5, keys=3)
_PAGE = 500  # orders of an audit that are read in one step
_RECOUNTS = 10  # how often an audit begins anew because the books have changed meanwhile

_pack = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_SALES: dict[int, Callable[[Any, Any], Sale]] = {
    1: Taken,
    2: lambda left, _: SoldOut(left),
    3: lambda order, buyer: AlreadyTaken(order.decode(), buyer.decode()),
    4: lambda quantity, _: Returned(quantity),
}
_SALE: dict[str, Callable[..., Sale]] = {"t": Taken, "a": AlreadyTaken, "r": Returned}


class RedisStockroom:
    """The stock of one key, all of it on one server: a hash, the orders by what is due when, and the outbox.

    Where grants have to be confirmed by replicas, so has every verb; one that is not is in doubt, and asked again.
    """

    def __init__(self, route: Route, keys: Keys, terms: Terms) -> None:
        self._send_to = route.grant
        self._terms = terms
        self._key = stock = keys.name(LineId("stock", terms.key)).key
        names = (stock, stock + b":due", stock + b":outbox")
        flags = (int(terms.once_per_buyer), int(terms.outbox))
        parts: tuple[bytes | int, ...] = (*names, terms.segments, _millis(terms.memory), *flags)
        self._begin = b"".join(bulk(part) for part in parts)

    def load(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._send(_RESTOCK, _bool_of, "load", quantity, operation)

    def add(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._send(_RESTOCK, _bool_of, "add", quantity, operation)

    def take(self, takes: Sequence[Take]) -> Awaitable[Sequence[Sale | Differs]]:
        def decode(reply: Any, via: int) -> Sequence[Sale | Differs]:
            if isinstance(reply, bytes):
                return [self._differs(json.loads(reply))] * len(takes)
            parts = iter(reply)
            return [_SALES[code](first, second) for code, first, second in zip(parts, parts, parts, strict=True)]

        payload = _TAKE_HEAD + self._begin + bulk(_pack(list(chain.from_iterable(takes))))
        return self._send_to(self._key, payload, decode, _TAKE.load)

    def confirm(self, order: str, buyer: str) -> Awaitable[Taken | Returned | Differs]:
        return self._send(_CONFIRM, _sale_of, order)

    def put_back(self, order: str, buyer: str) -> Awaitable[Returned | AlreadyTaken | Differs]:
        return self._send(_PUT_BACK, _sale_of, order, buyer)

    def remaining(self) -> Awaitable[Remaining | Differs]:
        return self._send(_RESTOCK, _remaining_of, "remaining", 0, "")

    def rebalance(self) -> Awaitable[Remaining | Differs]:
        return self._send(_RESTOCK, _remaining_of, "rebalance", 0, "")

    def close(self) -> Awaitable[Remaining | Differs]:
        return self._send(_RESTOCK, _remaining_of, "close", 0, "")

    async def audit(self) -> Audit | Differs:
        """Count all orders, page by page; begin anew if the books have changed meanwhile."""
        for _ in range(_RECOUNTS):
            counted = await self._count()
            if counted is not None:
                return counted
        raise BackendUnavailableError(
            f"the books of {self._terms.key!r} changed during each of {_RECOUNTS} counts: audit when less is sold"
        )

    def outbox(self, done: str, most: int) -> Awaitable[Sequence[Entry] | Differs]:
        return self._send(_OUTBOX, _entries_of, done, most)

    async def _count(self) -> Audit | Differs | None:
        cursor, first, quantities = "0", None, {}
        while True:
            page = await self._send(_AUDIT, _as_it_is, cursor, _PAGE)
            if isinstance(page, Differs):
                return page
            cursor, *books, orders = page
            if first is not None and books != first:
                return None
            first = books
            quantities.update(orders)
            if cursor == "0":
                loaded, accepted, returned, forgotten, left = books
                return Audit(loaded, accepted, returned, forgotten, sum(quantities.values()), tuple(left))

    def _send(
        self, script: Script, decode: Callable[[Any], _T], *arguments: bytes | str | int
    ) -> asyncio.Future[_T | Differs]:
        def decoded(reply: bytes, via: int) -> _T | Differs:
            answer = json.loads(reply)
            return self._differs(answer) if answer and answer[0] == "differs" else decode(answer)

        payload = script.head(4 + len(arguments), keys=3) + self._begin + b"".join(map(bulk, arguments))
        return self._send_to(self._key, payload, decoded, script.load)

    def _differs(self, answer: Sequence[Any]) -> Differs:
        _, segments, memory, once, outbox = answer
        return Differs(Terms(self._terms.key, segments, memory / 1000, once_per_buyer=once, outbox=outbox))


def _millis(seconds: float) -> int:
    return round(seconds * 1000)


# --- answers -----------------------------------------------------------------------------------------------


def _as_it_is(answer: Any) -> Any:
    return answer


def _bool_of(answer: Any) -> bool:
    return bool(answer[0])


def _remaining_of(answer: Any) -> Remaining:
    return Remaining(tuple(answer[1]))


def _sale_of(answer: Any) -> Any:
    code, *facts = answer
    return _SALE[code](*facts)


def _entries_of(answer: Any) -> list[Entry]:
    return [Entry(id_, tuple(_movements_of(json.loads(movements)))) for id_, movements in answer]


def _movements_of(flat: list[Any]) -> Iterator[Movement]:
    parts = iter(flat)
    for move, *facts in zip(parts, parts, parts, parts, parts, strict=True):
        yield Movement(Move(move), *facts)
