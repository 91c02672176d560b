"""Shops that sell in a rush: of one process or of several, which a test may harm; then the books are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

import aiodlock
from aiodlock import Returned, SegmentedStock, Taken
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.history import Event, Recorder, check_conservation
from aiodlock.testing.processes import Worker

_T = TypeVar("_T")


async def rush(buy: Callable[[int], Awaitable[bool]], *, orders: int, lanes: int) -> list[int]:
    """Let all orders through, so many at a time; return the numbers of those that were accepted."""
    numbers, accepted = iter(range(orders)), list[int]()

    async def lane() -> None:
        for number in numbers:
            if await buy(number):
                accepted.append(number)

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return accepted


def stock_of(locks: aiodlock.LockClient, key: str) -> SegmentedStock:
    """Return the stock that the shops sell."""
    return locks.stock(key, segments=5, memory=600.0, once_per_buyer=True, outbox=True, patience=20.0)


def shop_in_a_process(number: int, *, url: str, key: str, orders: int) -> AbstractContextManager[Worker]:
    """Return one of several shops, each with customers of its own."""
    facts = {"url": url, "key": key, "first": 1000 * number, "orders": orders, "lanes": 8}
    return Worker("tests.integration.shops:shop", who=f"shop-{number}", **facts)


async def close_the_books(stock: SegmentedStock, loaded: int, events: Sequence[Event]) -> int:
    """Ask again for every order in doubt: nothing was sold twice, nothing is lost. Return how many were taken."""
    asked = {str(event.facts["order"]) for event in events if event.what == "asked"}
    taken = {str(event.facts["order"]) for event in events if event.what == "answered" and event.facts["taken"]}
    refused = {str(event.facts["order"]) for event in events if event.what == "answered"} - taken
    back = {str(event.facts["order"]) for event in events if event.what == "put back"}
    for order in sorted(asked - refused - back):  # also those killed between a put_back and its answer
        match await stock.take(buyer=order.replace("o-", "b-"), order=order):
            case Taken():
                taken.add(order)
            case Returned():
                taken.add(order)
                back.add(order)
    left = (await stock.remaining()).segments
    books = {"accepted": [(order, 1) for order in taken], "returned": [(order, 1) for order in back]}
    assert check_conservation(loaded, left=left, **books) == []
    assert (await stock.audit()).is_balanced
    return len(taken)


async def shop(record: Recorder, *, url: str, key: str, first: int, orders: int, lanes: int) -> None:
    """Take orders one after the other in each lane, put every fourth back, and tell of each before and after."""
    async with aiodlock.connect(url) as locks:
        stock = stock_of(locks, key)
        numbers = iter(range(first, first + orders))

        async def lane() -> None:
            for number in numbers:
                who = {"buyer": f"b-{number}", "order": f"o-{number}"}
                record("asked", order=who["order"])
                sale = await _answer(partial(stock.take, **who))
                record("answered", order=who["order"], taken=isinstance(sale, Taken))
                if isinstance(sale, Taken) and number % 4 == 0:
                    await _answer(partial(stock.put_back, **who))
                    record("put back", order=who["order"])

        await asyncio.gather(*(lane() for _ in range(lanes)))


async def _answer(verb: Callable[[], Awaitable[_T]]) -> _T:
    """Ask until there is an answer, under the same id, as everybody should."""
    while True:
        try:
            return await verb()
        except BackendUnavailableError:
            continue
