"""Stock in MySQL and MariaDB: verbs become calls of procedures, over the connection of the locks' own verbs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
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
    Take,
    Taken,
    Terms,
)
from aiodlock.backends.base import Reply
from aiodlock.backends.mysql.node import Node
from aiodlock.backends.mysql.queries import Rows, call, micros

__all__ = ["MySQLStockroom"]

_T = TypeVar("_T")

_pack = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_SALES: dict[int, Callable[[Any, Any], Sale]] = {
    1: Taken,
    2: lambda left, _: SoldOut(left),
    3: lambda order, buyer: AlreadyTaken(_name(order), _name(buyer)),
    4: lambda quantity, _: Returned(quantity),
}


class MySQLStockroom:
    """The stock of one key: a row that every verb locks, a row for each segment, and one for each order."""

    def __init__(self, node: Node, terms: Terms) -> None:
        self._node = node
        self._terms = terms
        self._lane = "stock", terms.key
        self._begin = (
            terms.key.encode(),
            terms.segments,
            micros(terms.memory),
            int(terms.once_per_buyer),
            int(terms.outbox),
        )

    def load(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._restock(_bool_of, "load", quantity, operation)

    def add(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._restock(_bool_of, "add", quantity, operation)

    def take(self, takes: Sequence[Take]) -> Awaitable[Sequence[Sale] | Differs]:
        def decode(answer: Any) -> Sequence[Sale]:
            parts = iter(answer)
            return [_SALES[code](first, second) for code, first, second in zip(parts, parts, parts, strict=True)]

        # Digits, commas, brackets and quotes: nothing in it can mean anything else to the server.
        asked = f"'{_pack([_asked(take) for take in takes])}'"
        statement = f"{call('stock_take', *self._begin)[:-1]}, {asked})"
        return self._node.send(statement, lambda rows, via: self._decoded(rows, decode), lane=self._lane)

    def confirm(self, order: str, buyer: str) -> Awaitable[Taken | Returned | AlreadyTaken | Differs]:
        return self._send("confirm", _sale_of, order.encode(), buyer.encode())

    def put_back(self, order: str, buyer: str) -> Awaitable[Returned | AlreadyTaken | Differs]:
        return self._send("put_back", _sale_of, order.encode(), buyer.encode())

    def remaining(self) -> Awaitable[Remaining | Differs]:
        return self._restock(_remaining_of, "remaining")

    def rebalance(self) -> Awaitable[Remaining | Differs]:
        return self._restock(_remaining_of, "rebalance")

    def audit(self) -> Awaitable[Audit | Differs]:
        return self._send("audit", _audit_of)

    def close(self) -> Awaitable[Remaining | Differs]:
        return self._restock(_remaining_of, "close")

    def outbox(self, done: str, most: int) -> Awaitable[Sequence[Entry] | Differs]:
        def decoded(rows: Rows, via: int) -> list[Entry] | Differs:
            if rows and rows[0][0] == "differs":
                return self._differs(rows[0][1])
            return [Entry(str(number), tuple(_movements_of(json.loads(f"[{moved}]")))) for number, moved in rows]

        statement = call("stock_outbox", *self._begin, int(done or 0), most)
        return self._node.send(statement, decoded, lane=self._lane)

    def _restock(
        self, decode: Callable[[Any], _T], what: str, quantity: int = 0, operation: str = ""
    ) -> Reply[_T | Differs]:
        return self._send("restock", decode, what.encode(), quantity, operation.encode())

    def _send(self, verb: str, decode: Callable[[Any], _T], *arguments: bytes | int) -> Reply[_T | Differs]:
        statement = call(f"stock_{verb}", *self._begin, *arguments)
        return self._node.send(statement, lambda rows, via: self._decoded(rows, decode), lane=self._lane)

    def _decoded(self, rows: Rows, decode: Callable[[Any], _T]) -> _T | Differs:
        ((word, answer),) = rows
        return self._differs(answer) if word == "differs" else decode(json.loads(answer))

    def _differs(self, terms: str) -> Differs:
        segments, memory, once, outbox = json.loads(terms)
        return Differs(Terms(self._terms.key, segments, memory / 1e6, once_per_buyer=bool(once), outbox=bool(outbox)))


def _asked(take: Take) -> tuple[str | int, ...]:
    hold = micros(take.hold_for) if take.hold_for else 0
    return take.order.encode().hex(), take.buyer.encode().hex(), take.quantity, take.home, hold, int(take.again)


# --- answers -----------------------------------------------------------------------------------------------


def _name(digits: str) -> str:
    return bytes.fromhex(digits).decode()


def _bool_of(answer: Any) -> bool:
    return bool(answer[0])


def _remaining_of(answer: Any) -> Remaining:
    return Remaining(tuple(answer[1]))


def _audit_of(answer: Any) -> Audit:
    loaded, accepted, returned, forgotten, orders, left, outbox = answer
    return Audit(loaded, accepted, returned, forgotten, orders, tuple(left), outbox)


def _sale_of(answer: Any) -> Any:
    match answer:
        case ["t", segment, left]:
            return Taken(segment, left)
        case ["a", order, buyer]:
            return AlreadyTaken(_name(order), _name(buyer))
        case _:
            return Returned(answer[1])


def _movements_of(flat: list[Any]) -> Iterator[Movement]:
    parts = iter(flat)
    for move, order, buyer, quantity, segment in zip(parts, parts, parts, parts, parts, strict=True):
        yield Movement(Move(move), _name(order), _name(buyer), quantity, segment)
