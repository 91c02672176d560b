"""finish(): the only place that shields."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

__all__ = ["finish", "insist"]


async def finish(work: asyncio.Future[Any], *, within: float) -> bool:
    """Wait for *work*, which the client owns, then let a cancellation of the caller through.

    Return whether it ended within *within* seconds; its result and errors are its owner's business. However often the
    caller is cancelled meanwhile, natively or by an anyio scope, the wait goes on to its bound, and one CancelledError
    is raised at the end.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    cancelled: asyncio.CancelledError | None = None
    while not work.done() and (left := until - loop.time()) > 0:
        try:
            if cancelled is None:
                await _wait(work, loop, left)
            else:
                # A cancelled anyio scope cancels again at every await: only its own shield stops that.
                with anyio.CancelScope(shield=True):
                    await _wait(work, loop, left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.done()


async def insist(step: Callable[[], Awaitable[object]]) -> None:
    """Do *step*, which is short, to its end: again, if somebody cancels this task of ours with all the others."""
    while True:
        try:
            await step()
            return
        except asyncio.CancelledError:
            continue


async def _wait(work: asyncio.Future[Any], loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Wait for *work* without touching it; like asyncio.wait for one future, in half the time."""
    woken = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = loop.call_later(seconds, wake)
    work.add_done_callback(wake)
    try:
        await woken
    finally:
        timer.cancel()
        work.remove_done_callback(wake)
