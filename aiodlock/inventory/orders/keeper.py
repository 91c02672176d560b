"""A step done again and again in a task of our own: what fails is told, and tried again after a pause that grows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from aiodlock.errors import ClientClosedError
from aiodlock.events import EventSink, TaskFailed

__all__ = ["Keeper"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Keeper:
    """Keeps *step* going. It returns whether there may be more to do at once; if not, the next one waits *idle*."""

    def __init__(
        self, name: str, step: Callable[[], Awaitable[bool]], *, idle: float, on_event: EventSink | None = None
    ) -> None:
        self.failures = 0
        self._name = name
        self._step = step
        self._idle = idle
        self._on_event = on_event
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is not None:
            raise ClientClosedError(f"{self._name} was started before: make another")
        self._task = asyncio.create_task(self._run(), name=f"aiodlock: {self._name}")

    async def aclose(self) -> None:
        """End it, wherever it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                has_more = await self._step()
            except ClientClosedError:
                return
            except Exception as error:
                self._tell(error)
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            await asyncio.sleep(0 if has_more else self._idle)

    def _tell(self, error: Exception) -> None:
        self.failures += 1
        if self._on_event is not None:
            try:
                self._on_event(TaskFailed(self._name, repr(error)))
            except Exception:  # a sink can fail without anything else noticing
                self.failures += 1
