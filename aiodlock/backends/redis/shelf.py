"""A shelf: three keys of one slot that keep a stock, or one segment of it. Verbs become script calls, decoded here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import repeat
from typing import Any, TypeVar

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
    Taken,
    Terms,
)
from aiodlock.backends.redis.request import Decode, Request
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import Script, bulk, load
from aiodlock.errors import BackendUnavailableError

__all__ = [
    "TAKEN",
    "Shelf",
    "as_it_is",
    "pack",
    "pack_takes",
    "rows_of",
    "shared",
    "to_entries",
    "to_remaining",
    "to_sale",
]

_T = TypeVar("_T")

_CONFIRM, _PUT_BACK, _RESTOCK, _AUDIT = load("confirm"), load("put_back"), load("restock"), load("audit")
_PAGE = 500  # orders of an audit that are read in one step
_RECOUNTS = 10  # how often an audit begins anew because the books have changed meanwhile

pack = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
TAKEN = 1  # the code of an order that was
_OTHERS: dict[int, Callable[[Any, Any], Sale]] = {
    2: lambda left, _: SoldOut(left),
    3: lambda order, buyer: AlreadyTaken(order.decode(), buyer.decode()),
    4: lambda quantity, _: Returned(quantity),
}
_SALE: dict[str, Callable[..., Sale]] = {"t": Taken, "a": AlreadyTaken, "r": Returned}


class Shelf:
    """A hash, the orders by what is due when, and the outbox.

    *segments*: how many are kept here; less than 0 if this is one of so many. Where grants have to be confirmed by
    replicas, so has every verb; one that is not is in doubt, and asked again.
    """

    def __init__(self, route: Route, key: bytes, terms: Terms, *, segments: int) -> None:
        self._grant = route.grant
        self._terms = terms
        self._key = key
        names = (key, key + b":due", key + b":outbox")
        flags = (int(terms.once_per_buyer), int(terms.outbox))
        parts: tuple[bytes | int, ...] = (*names, segments, round(terms.memory * 1000), *flags)
        self._begin = b"".join(bulk(part) for part in parts)

    def load(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._restock(_bool_of, "load", quantity, operation)

    def add(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._restock(_bool_of, "add", quantity, operation)

    def confirm(self, order: str, buyer: str) -> Awaitable[Taken | Returned | AlreadyTaken | Differs]:
        return self._send(_CONFIRM, _sale_of, order, buyer)

    def put_back(self, order: str, buyer: str) -> Awaitable[Returned | AlreadyTaken | Differs]:
        return self._send(_PUT_BACK, _sale_of, order, buyer)

    def close(self) -> Awaitable[Remaining | Differs]:
        return self._restock(to_remaining, "close")

    def _restock(
        self, decode: Callable[[Any], _T], what: str, quantity: int = 0, operation: str = ""
    ) -> Request[_T | Differs]:
        return self._send(_RESTOCK, decode, what, quantity, operation)

    async def _count(self) -> tuple[Audit, int] | Differs:
        """Count all orders, page by page; begin anew if the books have changed meanwhile.

        Return also how many articles were sent to other segments and did not come back from them.
        """
        for _ in range(_RECOUNTS):
            counted = await self._try_to_count()
            if counted is not None:
                return counted
        raise BackendUnavailableError(
            f"the books of {self._terms.key!r} changed during each of {_RECOUNTS} counts: audit when less is sold"
        )

    async def _try_to_count(self) -> tuple[Audit, int] | Differs | None:
        cursor, first, quantities = "0", None, {}
        while True:
            page = await self._send(_AUDIT, as_it_is, cursor, _PAGE)
            if isinstance(page, Differs):
                return page
            cursor, *books, outbox, orders = page
            if first is not None and books != first:
                return None
            first = books
            quantities.update(orders)
            if cursor == "0":
                (loaded, accepted, returned, forgotten, sent), left = books
                sums = (loaded, accepted, returned, forgotten, sum(quantities.values()))
                return Audit(*sums, tuple(left), outbox), sent

    def _send(
        self, script: Script, decode: Callable[[Any], _T], *arguments: bytes | str | int
    ) -> Request[_T | Differs]:
        """Call a script whose answer is JSON."""

        def decoded(reply: bytes, via: int) -> _T | Differs:
            answer = json.loads(reply)
            return self._differs(answer) if answer and answer[0] == "differs" else decode(answer)

        return self._call(script, decoded, *arguments)

    def _send_many(self, script: Script, decode: Callable[[list[Any]], _T], *arguments: str) -> Request[_T | Differs]:
        """Call a script whose answer is a list; only an answer of other terms is JSON."""

        def decoded(reply: Any, via: int) -> _T | Differs:
            return self._differs(json.loads(reply)) if isinstance(reply, bytes) else decode(reply)

        return self._call(script, decoded, *arguments)

    def _call(self, script: Script, decode: Decode[_T], *arguments: bytes | str | int) -> Request[_T]:
        payload = script.head(4 + len(arguments), keys=3) + self._begin + b"".join(map(bulk, arguments))
        return self._grant(self._key, Request(payload, decode, script))

    def _differs(self, answer: Sequence[Any]) -> Differs:
        _, segments, memory, once, outbox = answer
        return Differs(Terms(self._terms.key, abs(segments), memory / 1000, once_per_buyer=once, outbox=outbox))


# --- orders, in columns as the script reads and answers them -----------------------------------------------


def shared(column: tuple[_T, ...]) -> _T | tuple[_T, ...]:
    """Return a column, or only its value if that is the same for all."""
    return column[0] if column.count(column[0]) == len(column) else column


def pack_takes(orders: Sequence[str], buyers: Sequence[str], *others: object) -> str:
    """Return orders as take reads them: JSON, in columns."""
    return f"[{_names_of(orders)},{_names_of(buyers)},{pack(others)[1:]}"


def _names_of(column: Sequence[str]) -> str:
    """Return names as JSON: they have no control characters, and hardly one has anything else to escape."""
    text = '["' + '","'.join(column) + '"]'
    return text if text.count('"') == 2 * len(column) and "\\" not in text else pack(column)


def rows_of(columns: Sequence[Any], decode: Callable[..., _T], *, count: int) -> list[_T]:
    """Return what *decode* makes of each row of columns, of which each may be one value for all."""
    if list not in map(type, columns):
        return [decode(*columns)] * count
    return list(map(decode, *(column if type(column) is list else repeat(column) for column in columns)))


def to_sale(code: int, first: Any, second: Any) -> Sale:
    """Decode what take answers to one order."""
    return Taken(first, second) if code == TAKEN else _OTHERS[code](first, second)


# --- answers -----------------------------------------------------------------------------------------------


def as_it_is(answer: Any) -> Any:
    """Return what is decoded elsewhere."""
    return answer


def to_remaining(answer: Any) -> Remaining:
    """Decode what is left."""
    return Remaining(tuple(answer[1]))


def to_entries(rows: Any) -> list[Entry]:
    """Decode entries of the outbox."""
    return [Entry(id_, tuple(rows_of(json.loads(movements), _movement_of, count=1))) for id_, movements in rows]


def _bool_of(answer: Any) -> bool:
    return bool(answer[0])


def _sale_of(answer: Any) -> Any:
    code, *facts = answer
    return _SALE[code](*facts)


def _movement_of(move: str, *facts: Any) -> Movement:
    return Movement(Move(move), *facts)
