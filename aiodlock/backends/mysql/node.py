"""The verbs' way to the server: one connection, made anew when it is lost, and what waits for it goes out together.

A connection does one thing at a time. While it is busy, calls gather; then they go out as one packet of statements,
each a transaction of its own, and the answers come back in order. Many tasks cost one connection and few round trips.

What the server rolls back, and says so, has not happened and goes out again: statements of other lines go first, those
of its own line wait behind it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from aiodlock.backends.base import Reply, pause_after
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.batch import Alone, Batch, Decode, Order, Shortcut, Statement
from aiodlock.backends.mysql.link import Link, StatementError
from aiodlock.backends.mysql.packets import command
from aiodlock.errors import AiodlockError, BackendUnavailableError

__all__ = ["Greet", "Node", "dial"]

_T = TypeVar("_T")
Greet: TypeAlias = Callable[[Link], Awaitable[None]]

_TOGETHER = 32  # statements in one packet: the first answer is not kept waiting for long
_REST = 0.01  # seconds, more or less, at least, before a statement that the server rolled back goes out again


class _Resting(NamedTuple):
    """Orders of a lane whose first was rolled back, until it goes out again."""

    orders: deque[Order[Any]]
    timer: asyncio.TimerHandle


class Node:
    """Keeps a `Link` to one address. While there is none every statement fails at once: nothing is kept and sent later.

    *greet* looks at a fresh link before any statement goes over it; *on_up* is told when a lost one has been replaced.
    """

    def __init__(self, address: Address, *, greet: Greet, on_up: Callable[[int], None], patience: float) -> None:
        self.address = address
        self.via = 0
        self._greet = greet
        self._on_up = on_up
        self.patience = patience
        self._link: Link | None = None
        self._down = "not connected"
        self._orders: deque[Order[Any]] = deque()
        self._resting: dict[Hashable, _Resting] = {}
        self._batch: Batch | None = None  # what is under way
        self._silence: asyncio.TimerHandle | None = None
        self._redialing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect once, or raise; from then on connect again whenever the connection is lost."""
        self._use(await self._dial())

    async def aclose(self) -> None:
        link, self._link, self._down = self._link, None, "closed"
        self._fail_all(BackendUnavailableError(f"{self.address}: closed"))
        if self._silence is not None:
            self._silence.cancel()
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
        lane: Hashable = None,
        results: int | None = None,
        shortcut: Shortcut[_T] | None = None,
    ) -> Reply[_T]:
        """Send a call of a procedure over the link of this moment, and decode its last rows.

        Those of one *lane* are done in the order in which they were sent; without one it has a lane of its own. With
        *results* it may be anything that answers so many, for example statements parted by semicolons. A *shortcut* is
        tried first where nothing else waits to be sent: with others a second round trip costs more.
        """
        order = Order(statement, decode, lane, results, shortcut)
        if self._link is None:
            order.reply.fail(BackendUnavailableError(f"{self.address}: {self._down}"))
        elif resting := self._resting.get(order.lane):
            resting.orders.append(order)
        else:
            self._orders.append(order)
            if self._batch is None:
                self._send_batch()
        return order.reply

    def batch_over(self, left: deque[Order[Any]]) -> None:
        """Hear that the link is free; what is *left* goes first, in order: a leave must not overtake its join."""
        self._batch = None
        self._orders.extendleft(reversed(left))
        if self._orders:
            self._send_batch()

    def put_off(self, left: deque[Order[Any]], kept_waiting: float, error: StatementError) -> None:
        """Let the lane of the first of *left* rest, because that was rolled back: all of its orders, in their order.

        It rests about as long as it *kept* all others *waiting*, so that a row which somebody does not let go costs the
        other lanes half of our time at most. What is older than our patience fails, and the engine decides what then.
        """
        loop, lane = asyncio.get_running_loop(), left[0].lane
        orders = _taken_out(left, lane) + _taken_out(self._orders, lane)
        too_old = [order for order in orders if order.since <= loop.time() - self.patience]  # the first of them
        pause = max(kept_waiting, _REST) * random.uniform(0.5, 1.5)
        timer = loop.call_later(pause, self._wake, lane)
        self._resting[lane] = _Resting(deque(orders[len(too_old) :]), timer)
        for order in too_old:
            order.reply.fail(BackendUnavailableError(f"rolled back for {self.patience:g}s: {error}"))

    def _wake(self, lane: Hashable) -> None:
        self._orders.extend(self._resting.pop(lane).orders)
        if self._batch is None:
            self._send_batch()

    def _send_batch(self) -> None:
        """Send what goes out together: all that are still wanted."""
        orders: deque[Order[Any]] = deque()
        while self._orders and len(orders) < _TOGETHER:
            order = self._orders.popleft()
            if not order.reply.done():
                orders.append(order)
        if self._link is None or not orders:
            return
        shortcut = orders[0].shortcut if len(orders) == 1 else None
        if shortcut is not None and (prepared := self._link.prepared.get(shortcut.name)) is not None:
            packet = prepared.command(shortcut.values)
            self._batch = Alone(self, orders, shortcut)
        else:
            packet = command(";".join([order.text for order in orders]))
            self._batch = Batch(self, orders)
        if self._silence is None:
            self._silence = asyncio.get_running_loop().call_later(self.patience, self._notice_silence)
        self._link.send(packet, self._batch)

    def _notice_silence(self) -> None:
        """Give the link up where the server has not answered for our patience. One timer serves many batches."""
        self._silence = None
        if self._batch is None or self._link is None:
            return
        loop = asyncio.get_running_loop()
        if (left := self._batch.heard_at + self.patience - loop.time()) > 0:
            self._silence = loop.call_later(left, self._notice_silence)
        else:
            self._link.abort(f"no answer for {self.patience:g}s")

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
        for resting in self._resting.values():
            resting.timer.cancel()
            self._orders.extend(resting.orders)
        self._resting.clear()
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
        return await dial(self.address, self._greet, within=self.patience)


def _taken_out(orders: deque[Order[Any]], lane: Hashable) -> list[Order[Any]]:
    """Take what is of *lane* out of *orders*."""
    taken = [order for order in orders if order.lane == lane]
    others = [order for order in orders if order.lane != lane]
    orders.clear()
    orders.extend(others)
    return taken


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
