"""What goes out together over the connection for verbs, and who waits for its answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from aiodlock.backends.base import Reply
from aiodlock.backends.mysql.link import StatementError
from aiodlock.backends.mysql.packets import OutOfStepError, Result, Rows
from aiodlock.errors import BackendDataError, BackendError

__all__ = ["Alone", "Batch", "Decode", "Order", "Sender", "Shortcut", "Statement"]

_T = TypeVar("_T")
Decode: TypeAlias = Callable[[Rows, int], _T]
Statement: TypeAlias = str | Callable[[], str]  # a function is asked for it when it is sent: after a shortcut, never


class Sender(Protocol):
    """Whoever sends batches, and hears what becomes of them."""

    via: int

    def batch_over(self, left: deque[Order[Any]]) -> None: ...

    def put_off(self, left: deque[Order[Any]], kept_waiting: float, error: StatementError) -> None: ...


class Shortcut(NamedTuple, Generic[_T]):
    """One plain statement that changes one row, and then it is all of a call, or changes nothing.

    A call of a procedure costs the server twice as much, and us: its answer is half a dozen packets. A statement that
    the link has `prepared` costs a quarter less than the same as text.
    """

    name: str
    values: Mapping[str, bytes | int]
    decode: Callable[[int, int], _T]  # of what it gave to LAST_INSERT_ID
    missed: Callable[[], None] = lambda: None  # told where it changed nothing


class Order(Generic[_T]):
    """A statement on its way, and who waits for its answer. Those of one *lane*, a line, are done one after another."""

    __slots__ = ("decode", "lane", "reply", "results", "shortcut", "since", "statement")

    def __init__(
        self,
        statement: Statement,
        decode: Decode[_T],
        lane: Hashable,
        results: int | None,
        shortcut: Shortcut[_T] | None,
    ) -> None:
        self.statement = statement
        self.decode = decode
        self.lane = self if lane is None else lane
        self.results = results
        self.shortcut = shortcut
        self.reply: Reply[_T] = Reply()
        self.since = asyncio.get_running_loop().time()

    @property
    def text(self) -> str:
        return self.statement if isinstance(self.statement, str) else self.statement()

    def answer(self, rows: Rows, via: int) -> None:
        try:
            answer = self.decode(rows, via)
        except Exception as error:
            self.reply.fail(error if isinstance(error, BackendError) else _unexpected(rows, error))
            return
        self.arrive(answer)

    def arrive(self, answer: _T) -> None:
        try:
            self.reply.arrive(answer)
        except Exception as error:  # of whoever hears it: the stream goes on
            asyncio.get_running_loop().call_exception_handler({"message": "hearing a reply failed", "exception": error})


class Batch:
    """Orders that went out together. The server stops at the first error, and what is behind it goes out again."""

    __slots__ = ("_count", "_orders", "_rows", "_sender", "heard_at")

    def __init__(self, sender: Sender, orders: deque[Order[Any]]) -> None:
        self._sender = sender
        self._orders = orders
        self._rows: Rows = ()
        self._count = 0  # results of the first of them
        self.heard_at = asyncio.get_running_loop().time()  # when the server last gave an answer

    def hear(self, result: Result) -> None:
        if not self._orders:
            raise OutOfStepError("more results than were asked for")
        self.heard_at = asyncio.get_running_loop().time()
        if result.rows is not None:
            self._rows = result.rows
        self._count += 1
        results = self._orders[0].results
        # A call ends with a result that has no rows.
        if result.rows is None if results is None else self._count == results:
            self._orders.popleft().answer(self._rows, self._sender.via)
            self._rows, self._count = (), 0
        if result.is_last:
            self._finish()

    def fail(self, error: BackendError) -> None:
        if not isinstance(error, StatementError):
            while self._orders:
                self._orders.popleft().reply.fail(error)
        elif error.is_passing:
            kept_waiting = asyncio.get_running_loop().time() - self.heard_at
            self._sender.put_off(self._orders, kept_waiting, error)
        else:
            self._orders.popleft().reply.fail(error)
        self._finish()

    def _finish(self) -> None:
        self._sender.batch_over(self._orders)


class Alone(Batch):
    """One order that goes by its shortcut; where that changes nothing it goes out again, before all others."""

    __slots__ = ("_shortcut",)

    def __init__(self, sender: Sender, orders: deque[Order[Any]], shortcut: Shortcut[Any]) -> None:
        super().__init__(sender, orders)
        self._shortcut = shortcut

    def hear(self, result: Result) -> None:
        if result.touched:
            self._orders.popleft().arrive(self._shortcut.decode(result.made, self._sender.via))
            self._finish()
        else:
            self._go_round()

    def fail(self, error: BackendError) -> None:
        # What the server keeps can fail where the call does not, for example when it has to be parsed anew (1615).
        if isinstance(error, StatementError) and not error.is_passing:
            self._go_round()
        else:
            super().fail(error)

    def _go_round(self) -> None:
        self._orders[0].shortcut = None
        self._shortcut.missed()
        self._finish()


def _unexpected(rows: Rows, error: Exception) -> BackendDataError:
    unexpected = BackendDataError(f"an answer {rows!r} that this version does not know: run 'aiodlock mysql init'")
    unexpected.__cause__ = error
    return unexpected
