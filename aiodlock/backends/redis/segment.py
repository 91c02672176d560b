"""One segment of a stock that is spread over a cluster: what a stock on one server does, and a little more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from aiodlock._core.line import LineId
from aiodlock._core.segment import Arrivals, Count, Look, Moves, Page, Refusal
from aiodlock._core.stock import AlreadyTaken, Differs, Entry, Returned, Sale, SoldOut, Take, Taken, Terms
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import load
from aiodlock.backends.redis.shelf import Shelf, pack, pack_takes, rows_of, shared, to_entries, to_sale

__all__ = ["RedisSegment"]

_T = TypeVar("_T")

_TAKE, _OUTBOX, _CLAIM, _SEGMENT = load("take"), load("outbox"), load("claim"), load("segment")
_LATER = 60_000  # milliseconds that the others outlive segment 0, whose word they have
_REFUSED_NOW = (2, 0)  # sold out here at this moment, as opposed to a refusal that is remembered


class RedisSegment(Shelf):
    """Segment *number* of a stock, in a slot of its own."""

    def __init__(self, route: Route, keys: Keys, terms: Terms, number: int) -> None:
        super().__init__(route, keys.segment(LineId("stock", terms.key), number), terms, segments=-terms.segments)
        self._number = number

    def claim(self, orders: Sequence[tuple[str, str]]) -> Awaitable[Sequence[str] | Differs]:
        def decode(reply: list[bytes]) -> list[str]:
            return [owner.decode() for owner in reply]

        return self._send_many(_CLAIM, decode, pack(list(chain.from_iterable(orders))))

    def take(self, takes: Sequence[Take], arrivals: Arrivals) -> Awaitable[Sequence[Sale | None] | Differs]:
        def decode(reply: list[Any]) -> list[Sale | None]:
            return rows_of(reply, self._sale_of, count=len(takes))

        orders, buyers, quantities, _, holds, _ = zip(*takes, strict=True)
        # Here is one segment, and whether a refusal is remembered is not for it to say.
        asked = pack_takes(orders, buyers, shared(quantities), 0, shared(holds), False)
        return self._send_many(_TAKE, decode, asked, pack(_flat(arrivals)))

    async def refuse(self, refusals: Sequence[tuple[Take, Refusal]]) -> Sequence[Sale] | Differs:
        told = list(chain.from_iterable(_told(take, refusal) for take, refusal in refusals))
        noted = await self._ask(_look_of, "refuse", told)
        if isinstance(noted, Differs):
            return noted
        known = await self.take([take for take, _ in refusals], Arrivals(0))
        if isinstance(known, Differs):
            return known
        return [sale or refusal for sale, (_, refusal) in zip(known, refusals, strict=True)]

    async def confirm(self, order: str, buyer: str) -> Taken | Returned | AlreadyTaken | Differs:
        kept = await super().confirm(order, buyer)
        return replace(kept, segment=self._number) if isinstance(kept, Taken) else kept

    def look(self) -> Awaitable[Look | Differs]:
        return self._ask(_look_of, "look", [])

    def tell(self, news: Look) -> Awaitable[Look | Differs]:
        ends = news.ends and news.ends + _LATER
        return self._ask(_look_of, "tell", [news.born, news.sale, news.is_open, ends])

    def send(self, to: int, quantity: int) -> Awaitable[int | Differs]:
        return self._ask(lambda answer: int(answer[2]), "send", [to, quantity])

    def arrive(self, arrivals: Arrivals) -> Awaitable[Look | Differs]:
        return self._ask(_look_of, "arrive", _flat(arrivals))

    def moves(self) -> Awaitable[Moves | Differs]:
        return self._ask(lambda answer: Moves(*map(_pairs, answer[2])), "moves", [])

    async def count(self) -> Count | Differs:
        counted = await self._count()
        return counted if isinstance(counted, Differs) else Count(*counted)

    def read(self, done: str, most: int, until: int) -> Awaitable[Page | Differs]:
        return self._send(_OUTBOX, self._page_of, done, most, until)

    def _ask(self, decode: Callable[[Any], _T], what: str, told: list[Any]) -> Awaitable[_T | Differs]:
        return self._send(_SEGMENT, decode, what, pack(told))

    def _sale_of(self, code: int, first: Any, second: Any) -> Sale | None:
        if (code, second) == _REFUSED_NOW:
            return None
        sale = to_sale(code, first, second)
        return replace(sale, segment=self._number) if isinstance(sale, Taken) else sale

    def _page_of(self, answer: Any) -> Page:
        until, rows = answer
        return Page(int(until), [self._numbered(entry) for entry in to_entries(rows)])

    def _numbered(self, entry: Entry) -> Entry:
        return replace(entry, movements=tuple(replace(one, segment=self._number) for one in entry.movements))


def _flat(arrivals: Arrivals) -> list[int]:
    return [arrivals.born, *chain.from_iterable(arrivals.sent)]


def _told(take: Take, refusal: Refusal) -> tuple[str, str, int, str]:
    match refusal:
        case SoldOut(left):
            return take.order, take.buyer, left, ""
        case AlreadyTaken(order, _):
            return take.order, take.buyer, 0, order


def _look_of(answer: Any) -> Look:
    (born, sale, is_open, ends), numbers = answer[0], answer[1]
    return Look(int(born), int(sale), is_open, ends, *numbers)


def _pairs(flat: Sequence[int]) -> dict[int, int]:
    parts = iter(flat)
    return dict(zip(parts, parts, strict=True))
