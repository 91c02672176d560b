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
        self._loop = cohort.engine.loop
        cohort.runs = self
        self._runs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._turn: Waiter | None = None  # while it waits or works

    @property
    def is_busy(self) -> bool:
        """Whether it waits or works."""
        return self._turn is not None

    def add(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Queue *function*; its result, or that it raised, is in the future."""
        result: asyncio.Future[T] = asyncio.Future(loop=self._loop)
        self._runs.append((function, result))
        if self._turn is None:
            self._ask_for_turn()
        return result

    def give_up(self) -> None:
        """Wait no longer when nobody is left to run for."""
        if self._turn is not None and not self._turn.done() and all(result.done() for _, result in self._runs):
            turn, self._turn = self._turn, None
            self._runs.clear()
            turn.cancel()
            self._cohort.give_up(turn)

    def _ask_for_turn(self) -> None:
        if own := self._cohort.grab():
            self._turn = self._loop.create_future()
            self._turn.set_result(own)
        else:
            self._turn = self._cohort.queue()
        self._turn.add_done_callback(self._combine)

    def _combine(self, turn: Waiter) -> None:
        if turn is not self._turn:
            return
        if error := turn.exception():
            self._turn = None
            self._fail(error)
            self._cohort.balance()
        elif own := turn.result():
            self._work(own)

    def _work(self, own: Hold) -> None:
        """Run a batch; keep the place for one more step, in which those just served may come again."""
        cohort = self._cohort
        if self._runs and not own._is_lost(cohort.engine.now()):
            self._run_batch(own)
            if not cohort.live and cohort.engine.now() < own._place.until:
                self._loop.call_soon(self._work, own)
                return
        self._turn = None
        if self._runs:
            self._ask_for_turn()
        own._end(cohort.engine.now())
        if self._turn is None:
            cohort.balance()

    def _run_batch(self, own: Hold) -> None:
        now, runs = self._cohort.engine.now, self._runs
        began = now()
        end = min(began + self._cohort.engine.batch, own._place.until)
        while runs and now() < end:
            function, result = runs.popleft()
            if result.done():
                continue
            try:
                result.set_result(function())
            except StopIteration as error:  # a future cannot carry it
                result.set_exception(RuntimeError(f"the function raised {error!r}"))
            except Exception as error:
                result.set_exception(error)

    def _fail(self, error: BaseException) -> None:
        for _, result in self._runs:
            if not result.done():
                result.set_exception(copy.copy(error))
        self._runs.clear()
