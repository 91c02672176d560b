"""Stock in Redis: all segments of a key on one server, where one script sees them all."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from aiodlock._core.line import LineId
from aiodlock._core.stock import Audit, Differs, Entry, Remaining, Sale, Take, Taken, Terms
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import load
from aiodlock.backends.redis.shelf import TAKEN, Shelf, pack_takes, rows_of, shared, to_entries, to_remaining, to_sale

__all__ = ["RedisStockroom"]

_TAKE, _OUTBOX = load("take"), load("outbox")


class RedisStockroom(Shelf):
    """The stock of one key, all of it on one server."""

    def __init__(self, route: Route, keys: Keys, terms: Terms) -> None:
        super().__init__(route, keys.name(LineId("stock", terms.key)).key, terms, segments=terms.segments)

    def take(self, takes: Sequence[Take]) -> Awaitable[Sequence[Sale] | Differs]:
        orders, buyers, *others = zip(*takes, strict=True)
        decode = partial(_sales_of, count=len(takes))
        return self._send_many(_TAKE, decode, pack_takes(orders, buyers, *map(shared, others)))

    def remaining(self) -> Awaitable[Remaining | Differs]:
        return self._restock(to_remaining, "remaining")

    def rebalance(self) -> Awaitable[Remaining | Differs]:
        return self._restock(to_remaining, "rebalance")

    async def audit(self) -> Audit | Differs:
        counted = await self._count()
        return counted if isinstance(counted, Differs) else counted[0]

    def outbox(self, done: str, most: int) -> Awaitable[Sequence[Entry] | Differs]:
        return self._send(_OUTBOX, lambda answer: to_entries(answer[1]), done, most, 0)


def _sales_of(columns: Sequence[Any], *, count: int) -> list[Sale]:
    code, *facts = columns
    if code == TAKEN:  # every one of them
        return list(rows_of(facts, Taken, count=count))
    return rows_of(columns, to_sale, count=count)
