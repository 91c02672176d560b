"""How drivers are handled: what is torn half-way leaves connections behind, or swallows the cancel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from aiodlock._core.cancel import finish

__all__ = ["end", "see_through"]

_T = TypeVar("_T")

_STEP_WITHIN = 5.0


async def see_through(work: Coroutine[Any, Any, _T], *, within: float) -> _T:
    """Do *work* in a task of its own, so that a cancel of the caller neither tears it nor gets lost in it.

    Cancellation: it goes on to its end, or for *within* seconds.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        is_done = await finish(task, within=within)
    finally:
        task.cancel()
    if not is_done:
        raise TimeoutError(f"not done within {within:g}s")
    return task.result()


async def end(*steps: Callable[[], Awaitable[object]]) -> None:
    """Do these steps one after the other; one that fails, or takes too long, does not keep the next from its turn."""
    for step in steps:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_STEP_WITHIN):
                await step()
