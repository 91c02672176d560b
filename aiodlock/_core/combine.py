"""The combiner: plain functions of many tasks, run under one ownership in one step of the loop."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from aiodlock._core.cohort import Cohort
from aiodlock._core.hold import Hold
from aiodlock._core.wake import Waiter
from aiodlock.errors import AiodlockError, ClientClosedError
from aiodlock.policy import DEFAULT, Default

__all__ = ["Combiner"]

T = TypeVar("T")


class Combiner:
    """Stands in the queue of a cohort like one task; at its turn it runs what was queued, for at most one batch.

    After that it keeps the place for one more step of the loop, in which those just served may come again. Who then
    finds another function queued runs it and two of its own at once: of three calls only one waits for the loop.
    """

    def __init__(self, cohort: Cohort) -> None:
        self._cohort = cohort
        self._loop = cohort.engine.loop
        cohort.runs = self
        self._runs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._given_up = 0  # about how many of them nobody waits for
        self._counted = 0  # how many of them the engine counts, besides the turn
        self._turn: Waiter | None = None  # while it waits or works
        self._kept: Hold | None = None  # between two steps
        self._joined = False  # whether anybody ran at once in this step
        self._earned = False  # whether whoever comes next may run at once for it, though nothing is queued

    @property
    def is_busy(self) -> bool:
        """Whether it waits or works."""
        return self._turn is not None

    def add(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Queue *function*; its result, or that it raised, is in the future."""
        engine = self._cohort.engine
        if self._turn is None:
            self._ask_for_turn()
        elif engine.waiting >= engine.most_waiters:
            raise engine.too_many(self._cohort.line)
        result: asyncio.Future[T] = asyncio.Future()
        self._runs.append((function, result))
        self._count()
        return result

    def join(self, function: Callable[[], T]) -> T | Default:
        """Run up to two functions that are queued, then *function*; return DEFAULT where it has to be queued.

        Running what others have queued earns one more call. A task that goes on coming finds nothing queued and nothing
        earned: nobody keeps the loop to itself.
        """
        runs, own = self._runs, self._kept
        if own is None or not (runs or self._earned) or self._cohort.engine.now() >= own._place.until:
            return DEFAULT
        self._kept, self._joined = None, True  # a function that starts another one does not run it inside itself
        self._earned = bool(runs)
        try:
            if runs:
                self._run_next()
            if runs:
                self._run_next()  # so that a long queue gets shorter
            return DEFAULT if runs else function()
        finally:
            self._kept = own

    def give_up(self) -> None:
        """Hear that somebody waits no longer; nor does this, when nobody is left to run for."""
        self._given_up += 1
        if 2 * self._given_up > len(self._runs):
            alive = [run for run in self._runs if not run[1].done()]
            self._runs.clear()
            self._runs.extend(alive)
            self._given_up = 0
            self._count()
        if not self._runs and self._turn is not None and not self._turn.done():
            turn, self._turn = self._turn, None
            turn.cancel()
            self._cohort.give_up(turn)

    def _count(self) -> None:
        """Have the engine count everybody who waits here; the turn stands for one of them."""
        waiting = len(self._runs) - 1 if self._runs else 0
        self._cohort.engine.waiting += waiting - self._counted
        self._counted = waiting

    def _ask_for_turn(self) -> None:
        if not self._cohort.engine.is_open:
            raise ClientClosedError("the client was closed while this task waited")
        turn: Waiter = asyncio.Future()
        if own := self._cohort.grab():
            turn.set_result(own)
        else:
            self._cohort.queue(turn)
        self._turn = turn
        turn.add_done_callback(self._combine)

    def _combine(self, turn: Waiter) -> None:
        if turn is not self._turn:
            return
        if error := turn.exception():
            self._turn = None
            self._fail(error)
        elif own := turn.result():
            self._work(own)

    def _work(self, own: Hold) -> None:
        cohort = self._cohort
        self._kept, self._earned = None, False
        if (self._runs or self._joined) and not own._is_lost(cohort.engine.now()):
            if self._joined:
                self._joined = False  # whoever comes next runs what the last one queued: all have as many calls a step
            else:
                self._run_batch(own)
            if not cohort.live() and cohort.engine.now() < own._place.until:
                self._kept = own
                self._loop.call_soon(self._work, own)
                return
        self._turn = None
        self._count()
        self._ask_again()  # before this turn ends: then its place is handed on to the next one
        own._end(cohort.engine.now())

    def _ask_again(self) -> None:
        try:
            if self._runs:
                self._ask_for_turn()
        except AiodlockError as error:
            self._fail(error)

    def _run_batch(self, own: Hold) -> None:
        now, runs, batch = self._cohort.engine.now, self._runs, self._cohort.engine.batch
        began = now()
        self._run_next()  # however late the turn comes: nobody is asked to wait for another
        looked_at = now()
        end = min(began + batch, own._place.until)
        stride = 1  # functions until the next look at the clock: more of them while they are quick
        while runs and looked_at < end:
            for _ in range(min(stride, len(runs))):
                self._run_next()
            before, looked_at = looked_at, now()
            stride = min(2 * stride, 32) if looked_at - before < batch / 32 else 1

    def _run_next(self) -> None:
        function, result = self._runs.popleft()
        if result.done():
            return
        try:
            result.set_result(function())
        except StopIteration as error:  # a future cannot carry it
            result.set_exception(RuntimeError(f"the function raised {error!r}"))
        except BaseException as error:  # also what the caller's task has to raise itself
            result.set_exception(error)

    def _fail(self, error: BaseException) -> None:
        for _, result in self._runs:
            if not result.done():
                result.set_exception(copy.copy(error))
        self._runs.clear()
        self._count()
