"""A step done again and again in a task of our own: what fails is told, and tried again after a pause that grows."""

from __future__ import annotations

import abc
import asyncio
import random
from types import TracebackType
from typing import Self

from aiodlock._core.cancel import finish
from aiodlock.errors import ClientClosedError
from aiodlock.events import EventSink, TaskFailed

__all__ = ["Keeper"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Keeper(abc.ABC):
    """Keeps a step going from ``async with`` to its end, which takes *ended_within* seconds at most.

    A step that says that there is nothing more to do is followed by *idle* seconds.
    """

    def __init__(self, name: str, *, idle: float, ended_within: float, on_event: EventSink | None = None) -> None:
        self.failures = 0  # how often it had to begin again
        self._name = name
        self._idle = idle
        self._ended_within = ended_within
        self._on_event = on_event
        self._pause = _FIRST_PAUSE
        self._is_ending = False
        self._task: asyncio.Task[None] | None = None

    @abc.abstractmethod
    async def _step(self) -> bool:
        """Do some of it; return whether there may be more to do at once."""

    @abc.abstractmethod
    async def _end(self) -> None:
        """Do what is left to do when there are no more steps."""

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise ClientClosedError(f"{self._name} was started before: make another")
        self._task = asyncio.create_task(self._run(), name=f"aiodlock: {self._name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = asyncio.ensure_future(self._stop())
        try:
            await finish(ending, within=self._ended_within)
        finally:
            ending.cancel()  # where it took too long

    async def _stop(self) -> None:
        self._is_ending = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            if not self._task.cancelled() and (error := self._task.exception()):
                self._tell(error)
        try:
            await self._end()
        except Exception as error:
            self._tell(error)

    async def _run(self) -> None:
        while not self._is_ending:
            try:
                has_more = await self._step()
            except ClientClosedError:
                return
            except (Exception, asyncio.CancelledError) as error:
                if _is_cancelled():  # by us; a driver can also let a cancel of a task of its own through
                    raise
                self._tell(error)
                await asyncio.sleep(self._pause * random.uniform(0.5, 1.5))
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            else:
                self._got_on()
                await asyncio.sleep(0 if has_more else self._idle)

    def _got_on(self) -> None:
        """Something was done: the next failure is the first one again. For steps that do not end by themselves."""
        self._pause = _FIRST_PAUSE

    def _tell(self, error: BaseException) -> None:
        self.failures += 1
        if self._on_event is not None:
            try:
                self._on_event(TaskFailed(self._name, repr(error)))
            except Exception:  # a sink can fail without anything else noticing
                self.failures += 1


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
