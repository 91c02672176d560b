"""Work that goes on beside other work, and whose failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Self, TypeVar

__all__ = ["Company"]

_T = TypeVar("_T")


class Company:
    """Work that goes on beside us, and is ended with the block; what it fails of is told by `unless_it_fails`."""

    def __init__(self, *work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(one) for one in self._work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def unless_it_fails(self, work: Awaitable[_T]) -> _T:
        """Wait for *work*; if one of the company has failed, or fails meanwhile, it is called off, and this says why.

        Cancellation: the work is cancelled, and has ended.
        """
        ours = asyncio.ensure_future(work)
        try:
            while True:
                running = [task for task in self._tasks if not _has_ended_well(task)]
                if ours.done():
                    return ours.result()
                await asyncio.wait((ours, *running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ours.cancel()
            await asyncio.gather(ours, return_exceptions=True)


def _has_ended_well(task: asyncio.Task[None]) -> bool:
    """Tell whether it has ended; raise what it failed of."""
    if task.done():
        task.result()
    return task.done()
