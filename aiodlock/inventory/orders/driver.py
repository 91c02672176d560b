"""Starting and ending what aiokafka gives us, so that no connection of it is left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiodlock._core.cancel import finish

__all__ = ["end", "start"]

_STEP_WITHIN = 5.0


async def start(driver: Any, *, within: float) -> None:
    """Start a producer or consumer, to the end of its own time limit: torn, it forgets a connection."""
    starting = asyncio.ensure_future(driver.start())
    starting.add_done_callback(lambda done: done.cancelled() or done.exception())
    if not await finish(starting, within=within):
        starting.cancel()
        raise TimeoutError(f"not started within {within:g}s")
    starting.result()


async def end(*steps: Callable[[], Awaitable[object]]) -> None:
    """Do these steps one after the other; one that fails, or takes too long, does not keep the next from its turn."""
    for step in steps:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_STEP_WITHIN):
                await step()
