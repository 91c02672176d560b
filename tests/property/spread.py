"""Segments in plain Python, and a network between them and their clients that loses, delays and repeats.

A `Place` is what one server keeps of one segment: a ledger of its own, and what crosses segments. Nothing happens by
itself: `Network.run` picks, message by message, what arrives next.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from aiodlock._core.ledger import Ledger, _Order, _State
from aiodlock._core.segment import Arrivals, Count, Look, Moves, Page, Refusal
from aiodlock._core.stock import AlreadyTaken, Entry, Movement, Remaining, Returned, Sale, SoldOut, Take, Taken, Terms
from aiodlock.errors import BackendUnavailableError

__all__ = ["NearSegment", "Network", "Place", "RemoteSegment"]

_T = TypeVar("_T")


class _Books(Ledger):
    """A ledger whose outbox counts instants, as servers do."""

    instant = 0  # of the last entry, or of the last promise that later entries are later
    now = 0

    def __init__(self, terms: Terms) -> None:
        super().__init__(replace(terms, segments=1))
        self.written: list[Entry] = []

    def _write_out(self, moved: Sequence[Movement]) -> None:
        if moved:
            self.instant = max(self.instant + 1, self.now)
            self._outbox.append(Entry(str(self.instant), tuple(moved)))
            self.written.append(self._outbox[-1])


class Place:
    """One segment on its server. *skew*: how far its clock is ahead."""

    def __init__(self, terms: Terms, *, skew: int = 0) -> None:
        self.books = _Books(terms)
        self.claims: dict[str, str] = {}
        self.born = self.sale = 0
        self.sent: dict[int, int] = {}
        self.arrived: dict[int, int] = {}
        self._skew = skew

    def at(self, now: int) -> Place:
        self.books.now = now + self._skew
        return self

    def claim(self, orders: Sequence[tuple[str, str]]) -> list[str]:
        return [
            self.claims.setdefault(order, buyer) if buyer else self.claims.get(order, "") for order, buyer in orders
        ]

    def take(self, takes: Sequence[Take], arrivals: Arrivals) -> list[Sale | None]:
        self.arrive(arrivals)
        return [self._take(one._replace(again=False)) for one in takes]

    def _take(self, take: Take) -> Sale | None:
        (sale,) = self.books.take([take], 0.0)
        return None if isinstance(sale, SoldOut) and take.order not in self.books._orders else sale

    def refuse(self, refusals: Sequence[tuple[Take, Refusal]]) -> list[Sale]:
        for take, refusal in refusals:
            self.books._orders.setdefault(take.order, _Order(_State.REFUSED, take.buyer, 0, 0, refusal))
        return [self.books.take([take], 0.0)[0] for take, _ in refusals]

    def confirm(self, order: str, buyer: str) -> Taken | Returned | AlreadyTaken:
        return self.books.confirm(order, buyer, 0.0)

    def put_back(self, order: str, buyer: str) -> Returned | AlreadyTaken:
        return self.books.put_back(order, buyer, 0.0)

    def load(self, quantity: int, operation: str) -> bool:
        was_open = self.books.is_open
        is_done = self.books.load(quantity, operation, 0.0)
        if self.books.is_open and not was_open:
            self.sale += 1
            self.born = 1
        return is_done

    def add(self, quantity: int, operation: str) -> bool:
        return self.books.add(quantity, operation, 0.0)

    def close(self) -> Remaining:
        self.sale += self.books.is_open
        return self.books.close(0.0)

    def look(self) -> Look:
        books = self.books
        sent, arrived = sum(self.sent.values()), sum(self.arrived.values())
        came_in = books.loaded + books.returned + arrived
        return Look(self.born, self.sale, books.is_open, 0, books.left[0], came_in, sent, arrived)

    def tell(self, news: Look) -> Look:
        if news.sale > self.sale:
            self.born, self.sale, self.books.is_open = news.born, news.sale, news.is_open
        return self.look()

    def send(self, to: int, quantity: int) -> int:
        some = min(quantity, self.books.left[0])
        self.books.left[0] -= some
        self.sent[to] = self.sent.get(to, 0) + some
        return self.sent[to]

    def arrive(self, arrivals: Arrivals) -> Look:
        for source, count in arrivals.sent:
            fresh = max(0, count - self.arrived.get(source, 0))
            self.books.left[0] += fresh
            self.arrived[source] = self.arrived.get(source, 0) + fresh
        return self.look()

    def moves(self) -> Moves:
        return Moves(dict(self.sent), dict(self.arrived))

    def count(self) -> Count:
        look = self.look()
        return Count(self.books.audit(0.0), look.sent - look.arrived)

    def read(self, done: str, most: int, until: int) -> Page:
        entries = self.books.outbox(done, most, 0.0)
        self.books.instant = max(self.books.instant, self.books.now, until)
        return Page(self.books.instant, entries)


@dataclass(slots=True)
class _Message:
    act: Callable[[], Any]
    reply: asyncio.Future[Any]
    is_done: bool = False
    outcome: Any = None


@dataclass
class Network:
    """Carries what is asked; each message may be lost before or after it was done, or be done much later."""

    random: random.Random
    faults: float = 0.1
    now: int = 0
    _under_way: list[_Message] = field(default_factory=list)
    _ghosts: deque[_Message] = field(default_factory=deque)

    def ask(self, act: Callable[[], _T]) -> Awaitable[_T]:
        reply: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._under_way.append(_Message(act, reply))
        return reply

    async def run(self, *clients: Coroutine[Any, Any, None]) -> None:
        """Let the clients work to their end, one message at a time."""
        tasks = [asyncio.ensure_future(client) for client in clients]
        while not all(task.done() for task in tasks):
            for _ in range(4):
                await asyncio.sleep(0)
            self.now += 1
            if self._ghosts and self.random.random() < 0.02:
                self._ghosts.popleft().act()
            elif self._under_way:
                self._carry(self._under_way.pop(self.random.randrange(len(self._under_way))))
        await asyncio.gather(*tasks)
        while self._ghosts:
            self._ghosts.popleft().act()

    def _carry(self, message: _Message) -> None:
        is_lost = self.random.random() < self.faults
        if message.is_done:
            self._answer(message, is_lost)
        elif not is_lost:
            message.outcome, message.is_done = message.act(), True
            self._under_way.append(message)
        else:
            if self.random.random() < 0.5:
                self._ghosts.append(message)
            self._answer(message, True)

    def _answer(self, message: _Message, is_lost: bool) -> None:
        if message.reply.done():
            return
        if is_lost:
            message.reply.set_exception(BackendUnavailableError("lost"))
        else:
            message.reply.set_result(message.outcome)


class RemoteSegment:
    """A place as a client sees it: every verb is a message there and back."""

    def __init__(self, network: Network, place: Place) -> None:
        self._network, self._place = network, place

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        def ask(*arguments: Any) -> Awaitable[Any]:
            return self._network.ask(lambda: getattr(self._place.at(self._network.now), verb)(*arguments))

        return ask


class NearSegment:
    """A place without a network: every verb is done at once, behind what a test does *before* it, once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.before: dict[str, Callable[[], Any]] = {}

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*arguments: Any) -> Any:
            self.before.pop(verb, lambda: None)()
            return getattr(self._place, verb)(*arguments)

        return ask
