"""The verbs' way to the server: one connection, made anew when it is lost, and what waits for it goes out together.

A connection does one thing at a time. While it is busy, calls gather; then they go out as one packet of statements,
each a transaction of its own, and the answers come back in order. Many tasks cost one connection and few round trips.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar

from aiodlock.backends.base import Reply
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link, StatementError
from aiodlock.backends.mysql.queries import Rows
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["Decode", "Greet", "Node", "dial", "pause_after"]

_T = TypeVar("_T")
Decode: TypeAlias = Callable[[Rows, int], _T]
Greet: TypeAlias = Callable[[Link], Awaitable[None]]

_TOGETHER = 32  # statements in one packet: the first answer is not kept waiting for long
_TRIES = 10  # of a statement that the server rolls back
_FIRST_DELAY, _LONGEST_DELAY = 0.02, 2.0


class _Order(Generic[_T]):
    """A statement on its way, and who waits for its answer."""

    __slots__ = ("decode", "is_written", "reply", "results", "statement", "tries")

    def __init__(self, statement: str, decode: Decode[_T], results: int | None) -> None:
        self.statement = statement
        self.decode = decode
        self.results = results
        self.reply: Reply[_T] = Reply()
        self.is_written = False
        self.tries = 0

    def answer(self, rows: Rows, via: int) -> None:
        try:
            self.reply.arrive(self.decode(rows, via))
        except BackendError as error:
            self.reply.fail(error)
        except Exception as error:  # of whoever hears it: it must not end the worker
            asyncio.get_running_loop().call_exception_handler({"message": "hearing a reply failed", "exception": error})


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
        self._awake: asyncio.Future[None] | None = None
        self._worker: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect once, or raise; from then on connect again whenever the connection is lost."""
        self._link = await self._dial()
        self._worker = asyncio.create_task(self._work(self._link), name=f"aiodlock: {self.address}")

    async def aclose(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})
        self._down, link, self._link = "closed", self._link, None
        self._fail_all(BackendUnavailableError(f"{self.address}: closed"))
        if link is not None:
            await link.aclose()

    def send(self, statement: str, decode: Decode[_T], *, results: int | None = None) -> Reply[_T]:
        """Send a call of a procedure over the link of this moment, and decode its last rows.

        With *results* it may be anything that answers so many, for example statements parted by semicolons.
        """
        order = _Order(statement, decode, results)
        if self._link is None:
            order.reply.set_exception(BackendUnavailableError(f"{self.address}: {self._down}"))
            return order.reply
        if self._awake is not None and not self._awake.done():
            order.is_written = self._link.write(statement)  # now, not when the worker is awake
            self._awake.set_result(None)
        self._orders.append(order)
        return order.reply

    async def _work(self, link: Link) -> None:
        while True:
            try:
                await self._serve(link)
            except BackendUnavailableError as error:
                link.abort()
                self._link, self._down = None, str(error)
                self._fail_all(error)
            link = await self._redial()
            self._link = link
            asyncio.get_running_loop().call_soon(self._on_up, self.via)  # what it raises must not end this task

    async def _serve(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._orders:
                self._awake = loop.create_future()
                await self._awake
            if batch := self._take():
                silence = loop.call_later(self._patience, link.abort, f"no answer for {self._patience:g}s")
                try:
                    await self._perform(link, batch)
                finally:
                    silence.cancel()

    def _take(self) -> list[_Order[Any]]:
        """Take what goes out together: one alone that has gone out already, else all that are still wanted."""
        if self._orders[0].is_written:
            return [self._orders.popleft()]
        taken = [self._orders.popleft() for _ in range(min(_TOGETHER, len(self._orders)))]
        return [order for order in taken if not order.reply.cancelled()]

    async def _perform(self, link: Link, batch: list[_Order[Any]]) -> None:
        """Send *batch* and answer each; the server stops at the first error, and what is behind it goes out again."""
        done = 0
        try:
            statements = None if batch[0].is_written else ";".join(order.statement for order in batch)
            batch[0].is_written = False  # if it has to be repeated
            result = await link.first(statements)
            for order in batch:
                rows, count = result or (), 1
                # A call ends with a result that has no rows.
                while count < order.results if order.results else result is not None:
                    result, count = await link.next(), count + 1
                    rows = rows if result is None else result
                order.answer(rows, self.via)
                done += 1
                if done < len(batch):
                    result = await link.next()
        except StatementError as error:
            again = [batch[done]] if self._is_to_repeat(batch[done], error) else []
            # In order: a leave must not overtake its join.
            self._orders.extendleft(reversed([*again, *batch[done + 1 :]]))
        except BaseException as error:
            lost = error if isinstance(error, BackendError) else BackendUnavailableError(f"{self.address}: closed")
            for order in batch[done:]:
                order.reply.fail(lost)
            raise

    def _is_to_repeat(self, order: _Order[Any], error: StatementError) -> bool:
        """Decide whether a statement that was refused goes out again; if not, it is answered here."""
        order.tries += 1
        if error.is_passing and order.tries < _TRIES:
            return True
        order.reply.fail(BackendUnavailableError(f"rolled back {_TRIES} times: {error}") if error.is_passing else error)
        return False

    def _fail_all(self, error: BackendUnavailableError) -> None:
        while self._orders:
            self._orders.popleft().reply.fail(error)

    async def _redial(self) -> Link:
        tries = 0
        while True:
            await asyncio.sleep(pause_after(tries))
            try:
                return await self._dial()
            except BackendError as error:
                self._down, tries = str(error), tries + 1

    async def _dial(self) -> Link:
        self.via += 1
        return await dial(self.address, self._greet, within=self._patience)


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
