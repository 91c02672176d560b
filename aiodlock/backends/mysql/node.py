"""The verbs' way to the server: one connection, made anew when it is lost, and what waits for it goes out together.

A connection does one thing at a time. While it is busy, calls gather; then they go out as one packet of statements,
each a transaction of its own, and the answers come back in order. Many tasks cost one connection and few round trips.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from aiodlock.backends.base import Reply
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link, StatementError
from aiodlock.backends.mysql.packets import OutOfStepError, Result, Rows
from aiodlock.errors import AiodlockError, BackendDataError, BackendError, BackendUnavailableError

__all__ = ["Decode", "Greet", "Node", "Shortcut", "Statement", "dial", "pause_after"]

_T = TypeVar("_T")
Decode: TypeAlias = Callable[[Rows, int], _T]
Statement: TypeAlias = str | Callable[[], str]  # a function is asked for it when it is sent: after a shortcut, never
Greet: TypeAlias = Callable[[Link], Awaitable[None]]

_TOGETHER = 32  # statements in one packet: the first answer is not kept waiting for long
_TRIES = 10  # of a statement that the server rolls back
_FIRST_DELAY, _LONGEST_DELAY = 0.02, 0.5  # short beside any ttl: who waits must not fail because we pause


class Shortcut(NamedTuple, Generic[_T]):
    """One plain statement that changes one row, and then it is all of a call, or changes nothing.

    A call of a procedure costs the server twice as much, and us: its answer is half a dozen packets.
    """

    statement: str
    decode: Callable[[int, int], _T]  # of what it gave to LAST_INSERT_ID
    missed: Callable[[], None] = lambda: None  # told where it changed nothing


class _Order(Generic[_T]):
    """A statement on its way, and who waits for its answer."""

    __slots__ = ("decode", "reply", "results", "shortcut", "statement", "tries")

    def __init__(
        self, statement: Statement, decode: Decode[_T], results: int | None, shortcut: Shortcut[_T] | None
    ) -> None:
        self.statement = statement
        self.decode = decode
        self.results = results
        self.shortcut = shortcut
        self.reply: Reply[_T] = Reply()
        self.tries = 0

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

    def is_repeated_after(self, error: StatementError) -> bool:
        """Decide whether a statement that was refused goes out again; if not, it is answered here."""
        self.tries += 1
        if error.is_passing and self.tries < _TRIES:
            return True
        self.reply.fail(BackendUnavailableError(f"rolled back {_TRIES} times: {error}") if error.is_passing else error)
        return False


class _Batch:
    """Orders that went out together. The server stops at the first error, and what is behind it goes out again."""

    __slots__ = ("_count", "_node", "_orders", "_rows", "_silence")

    def __init__(self, node: Node, orders: deque[_Order[Any]], silence: asyncio.TimerHandle) -> None:
        self._node = node
        self._orders = orders
        self._silence = silence
        self._rows: Rows = ()
        self._count = 0  # results of the first of them

    def hear(self, result: Result) -> None:
        if not self._orders:
            raise OutOfStepError("more results than were asked for")
        if result.rows is not None:
            self._rows = result.rows
        self._count += 1
        results = self._orders[0].results
        # A call ends with a result that has no rows.
        if result.rows is None if results is None else self._count == results:
            self._orders.popleft().answer(self._rows, self._node.via)
            self._rows, self._count = (), 0
        if result.is_last:
            self._finish()

    def fail(self, error: BackendError) -> None:
        if isinstance(error, StatementError):
            if not self._orders[0].is_repeated_after(error):
                self._orders.popleft()
        else:
            while self._orders:
                self._orders.popleft().reply.fail(error)
        self._finish()

    def _finish(self) -> None:
        self._silence.cancel()
        self._node.batch_over(self._orders)


class _Alone(_Batch):
    """One order that goes by its shortcut; where that changes nothing it goes out again, before all others."""

    __slots__ = ("_shortcut",)

    def __init__(
        self, node: Node, orders: deque[_Order[Any]], silence: asyncio.TimerHandle, shortcut: Shortcut[Any]
    ) -> None:
        super().__init__(node, orders, silence)
        self._shortcut = shortcut

    def hear(self, result: Result) -> None:
        order, shortcut = self._orders[0], self._shortcut
        order.shortcut = None
        if result.touched:
            self._orders.popleft().arrive(shortcut.decode(result.made, self._node.via))
        else:
            shortcut.missed()
        self._finish()


class Node:
    """Keeps a `Link` to one address. While there is none every statement fails at once: nothing is kept and sent later.

    *greet* looks at a fresh link before any statement goes over it; *on_up* is told when a lost one has been replaced.
    """

    def __init__(self, address: Address, *, greet: Greet, on_up: Callable[[int], None], patience: float) -> None:
        self.address = address
        self.via = 0
        self._greet = greet
        self._on_up = on_up
        self._patience = patience
        self._link: Link | None = None
        self._down = "not connected"
        self._orders: deque[_Order[Any]] = deque()
        self._is_busy = False
        self._redialing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect once, or raise; from then on connect again whenever the connection is lost."""
        self._use(await self._dial())

    async def aclose(self) -> None:
        link, self._link, self._down = self._link, None, "closed"
        self._fail_all(BackendUnavailableError(f"{self.address}: closed"))
        if self._redialing is not None:
            self._redialing.cancel()
            await asyncio.wait({self._redialing})
        if link is not None:
            await link.aclose()

    def send(
        self,
        statement: Statement,
        decode: Decode[_T],
        *,
        results: int | None = None,
        shortcut: Shortcut[_T] | None = None,
    ) -> Reply[_T]:
        """Send a call of a procedure over the link of this moment, and decode its last rows.

        With *results* it may be anything that answers so many, for example statements parted by semicolons. A
        *shortcut* is tried first where nothing else waits to be sent: with others a second round trip costs more.
        """
        order = _Order(statement, decode, results, shortcut)
        if self._link is None:
            order.reply.set_exception(BackendUnavailableError(f"{self.address}: {self._down}"))
            return order.reply
        self._orders.append(order)
        if not self._is_busy:
            self._send_batch()
        return order.reply

    def batch_over(self, left: deque[_Order[Any]]) -> None:
        """Hear that the link is free; what is *left* goes first, in order: a leave must not overtake its join."""
        self._is_busy = False
        self._orders.extendleft(reversed(left))
        if self._orders:
            self._send_batch()

    def _send_batch(self) -> None:
        """Send what goes out together: all that are still wanted."""
        orders: deque[_Order[Any]] = deque()
        while self._orders and len(orders) < _TOGETHER:
            order = self._orders.popleft()
            if not order.reply.cancelled():
                orders.append(order)
        if self._link is not None and orders:
            self._is_busy = True
            silence = asyncio.get_running_loop().call_later(
                self._patience, self._link.abort, f"no answer for {self._patience:g}s"
            )
            if len(orders) == 1 and (shortcut := orders[0].shortcut) is not None:
                self._link.send(shortcut.statement, _Alone(self, orders, silence, shortcut))
            else:
                self._link.send(";".join([order.text for order in orders]), _Batch(self, orders, silence))

    def _use(self, link: Link) -> None:
        if link.lost:  # between its last answer and now
            raise BackendUnavailableError(f"{link.where}: {link.lost}")
        self._link = link
        link.on_lost = self._lost

    def _lost(self, reason: str) -> None:
        if self._link is None:
            return  # we closed it
        self._link, self._down = None, reason
        self._fail_all(BackendUnavailableError(f"{self.address}: {reason}"))
        self._redialing = asyncio.create_task(self._redial(), name=f"aiodlock: {self.address}")

    def _fail_all(self, error: BackendUnavailableError) -> None:
        while self._orders:
            self._orders.popleft().reply.fail(error)

    async def _redial(self) -> None:
        tries = 0
        while self._link is None:
            await asyncio.sleep(pause_after(tries))
            try:
                self._use(await self._dial())
            except AiodlockError as error:
                self._down, tries = str(error), tries + 1
        asyncio.get_running_loop().call_soon(self._on_up, self.via)  # what it raises must not end this task

    async def _dial(self) -> Link:
        self.via += 1
        return await dial(self.address, self._greet, within=self._patience)


def _unexpected(rows: Rows, error: Exception) -> BackendDataError:
    unexpected = BackendDataError(f"an answer {rows!r} that this version does not know: run 'aiodlock mysql init'")
    unexpected.__cause__ = error
    return unexpected


def pause_after(tries: int) -> float:
    """Return how long to wait before the next connect."""
    return min(_FIRST_DELAY * (1 << min(tries, 20)), _LONGEST_DELAY) * random.uniform(0.5, 1.5)


async def dial(address: Address, greet: Greet, *, within: float) -> Link:
    """Return a fresh link that *greet* has looked at."""
    link: Link | None = None
    try:
        async with asyncio.timeout(within):
            link = await Link.open(address)
            await greet(link)
    except BaseException as error:
        if link is not None:
            link.abort()
        if isinstance(error, TimeoutError):
            raise BackendUnavailableError(f"{address}: no answer within {within:g}s") from error
        raise
    return link
