"""Waking: tasks that are given something run one after the other, not in a step of the loop each.

Whoever waits for a future is called in a later step of the loop, and that step is most of what a short wait costs. What
we give out is therefore called for here, in the order in which it was given: at the end of the news that brought it, or
in one later step for all. A section without an await is over before the next task runs, so hand-offs follow one another
in one step. Others want the loop too: after a while the rest waits for its next step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aiodlock._core.ownership import current_task

if TYPE_CHECKING:
    from aiodlock._core.hold import Hold

__all__ = ["Waiter", "Wakes"]

_T = TypeVar("_T")

Waiter: TypeAlias = "asyncio.Future[Hold | None]"  # None: not now (a try), or not in time

_LONG = 0.001  # seconds after which nobody is woken in the same step who was not before it


class Wakes:
    """Who of a client's tasks is woken next.

    In a block ``with wakes:`` something is heard: whoever that wakes runs at the end of the block.
    """

    __slots__ = ("_is_planned", "_loop", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: deque[tuple[Context, Callable[..., object], asyncio.Future[Any]]] = deque()
        self._is_planned = False  # somebody calls `_run`

    def give(self, waiter: asyncio.Future[_T], result: _T) -> None:
        """Give *waiter* its result, and have whoever waits for it called."""
        try:
            ((step, context),) = waiter._callbacks
        except (AttributeError, TypeError, ValueError):  # nobody waits yet, or several, or it is of another make
            waiter.set_result(result)
            return
        waiter.remove_done_callback(step)
        waiter.set_result(result)
        self._woken.append((context, step, waiter))
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._run)

    def __enter__(self) -> None:
        self._is_planned = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if current_task(self._loop) is None:
            self._run()
        else:  # no task can run inside another
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        woken, waiter, until = self._woken, None, monotonic() + _LONG
        due = len(woken)  # the loop would run all of these in one step, too: nobody falls behind
        try:
            while woken and (due > 0 or monotonic() < until):
                due -= 1
                context, step, waiter = woken.popleft()
                context.run(step, waiter)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "whoever waited failed", "exception": error, "future": waiter}
            )
        finally:  # also where a task takes the loop down with it: the others run when it goes on
            self._is_planned = bool(woken)
            if woken:
                self._loop.call_soon(self._run)
