"""Asking several servers at once, and going on as soon as the answers decide."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from aiodlock.backends.base import as_future
from aiodlock.errors import BackendError

__all__ = ["Votes", "gather_votes", "largest", "majority_of", "never"]

_T = TypeVar("_T")

_LEAST = 0.01  # seconds
Votes: TypeAlias = dict[int, _T | BackendError]  # by the server's number; who is not in it was silent


def majority_of(servers: int) -> int:
    """Return the least number of which no two groups can be without a common member."""
    return servers // 2 + 1


def largest(values: Iterable[float], position: int) -> float:
    """Return the *position*-th largest: what so many of them reach."""
    return sorted(values, reverse=True)[position - 1]


def never(votes: Mapping[int, object]) -> bool:
    """Let no answers decide: all are waited for."""
    return False


async def gather_votes(
    asked: Mapping[int, Awaitable[_T]],
    is_decided: Callable[[Votes[_T]], bool] = never,
    is_hopeless: Callable[[Votes[_T]], bool] = never,
    *,
    limit: float,
) -> Votes[_T]:
    """Return the answers when they decide, when all are there, or after *limit* seconds.

    When it is hopeless the others get as long again: one that hangs must not hold everybody up, and whoever answers
    is left with less ado. Answers that come later are dropped: what was asked may still be done.
    """
    votes: Votes[_T] = {}
    open_: dict[asyncio.Future[_T], int] = {as_future(answer): number for number, answer in asked.items()}
    for future in open_:
        future.add_done_callback(_look_at)
    loop = asyncio.get_running_loop()
    began, has_hope = loop.time(), True
    until = began + limit
    while open_ and not is_decided(votes) and (left := until - loop.time()) > 0:
        done, _ = await asyncio.wait(open_, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            votes[open_.pop(future)] = _error_of(future) or future.result()
        if has_hope and is_hopeless(votes):
            has_hope, now = False, loop.time()
            until = min(until, now + max(_LEAST, now - began))
    for future in open_:
        if isinstance(future, asyncio.Task):  # it has more to ask; a plain future is a request on its way
            future.cancel()
    return votes


def _error_of(future: asyncio.Future[Any]) -> BackendError | None:
    error = future.exception()
    if error is not None and not isinstance(error, BackendError):
        raise error
    return error


def _look_at(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # a late one is nobody's concern
