"""The combiner: plain functions of many tasks, run under one ownership in one step of the loop."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from aiodlock._core.cohort import Cohort, Waiter
from aiodlock._core.hold import Hold

__all__ = ["Combiner"]

T = TypeVar("T")


class Combiner:
    """Stands in the queue of a cohort like one task; at its turn it runs what was queued, for at most one batch."""

    def __init__(self, cohort: Cohort) -> None:
        self._cohort = cohort
        cohort.runs = self
        self._runs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._turn: Waiter | None = None

    def add(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Queue *function*; its result, or that it raised, is in the future."""
        result: asyncio.Future[T] = self._cohort.engine.loop.create_future()
        self._runs.append((function, result))
        if self._turn is None:
            self._ask_for_turn()
        return result

    def give_up(self) -> None:
        """Wait no longer when nobody is left to run for."""
        if self._turn is not None and all(result.done() for _, result in self._runs):
            turn, self._turn = self._turn, None
            self._runs.clear()
            turn.cancel()
            self._cohort.give_up(turn)

    def _ask_for_turn(self) -> None:
        if own := self._cohort.grab():
            self._turn = self._cohort.engine.loop.create_future()
            self._turn.set_result(own)
        else:
            self._turn = self._cohort.queue()
        self._turn.add_done_callback(self._combine)

    def _combine(self, turn: Waiter) -> None:
        if turn is not self._turn:
            return
        self._turn = None
        if error := turn.exception():
            self._fail(error)
        elif own := turn.result():
            try:
                self._run_batch(own)
            finally:
                own._end(self._cohort.engine.now())
        if self._runs:
            self._ask_for_turn()

    def _run_batch(self, own: Hold) -> None:
        now = self._cohort.engine.now()
        end = min(now + self._cohort.engine.batch, own._place.until)
        while self._runs and now < end:
            function, result = self._runs.popleft()
            if not result.done():
                _call(function, result)
                now = self._cohort.engine.now()

    def _fail(self, error: BaseException) -> None:
        for _, result in self._runs:
            if not result.done():
                result.set_exception(copy.copy(error))
        self._runs.clear()


def _call(function: Callable[[], T], result: asyncio.Future[T]) -> None:
    try:
        result.set_result(function())
    except StopIteration as error:  # a future cannot carry it
        result.set_exception(RuntimeError(f"the function raised {error!r}"))
    except Exception as error:
        result.set_exception(error)
