"""Simulated processes on one virtual-time loop: each has a clock of its own, and can freeze or die at any step.

Whatever a process does runs in a context that carries it: its tasks, timers and the ends of its futures. The loop asks
the process before each of these steps; a frozen one keeps them for later, a dead one for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from typing import Any

from aiodlock.clock import Timer
from aiodlock.testing import VirtualTimeLoop

_here: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class _Step(asyncio.Handle):
    def _run(self) -> None:
        process = self._context.get(_here)
        if process is None or process.admits(self):
            super()._run()


class _TimedStep(_Step, asyncio.TimerHandle):
    pass


class Storm(Exception):
    """Work without end."""


class SimulatedLoop(VirtualTimeLoop):
    """A virtual-time loop whose steps may belong to processes, and which ends when they never come to rest."""

    rounds_left = 50_000  # a run takes some hundreds, few take more than a thousand

    def _run_once(self) -> None:
        self.rounds_left -= 1
        if self.rounds_left == 0:
            raise Storm
        super()._run_once()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        step = _Step(callback, args, self, context)
        self._ready.append(step)
        return step

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        step = _TimedStep(when, callback, args, self, context)
        heapq.heappush(self._scheduled, step)
        step._scheduled = True
        return step

    def run_again(self, steps: list[asyncio.Handle]) -> None:
        """Run *steps* before all others, except those cancelled meanwhile."""
        self._ready.extendleft(reversed(steps))


class Process:
    """One of the simulated processes, and its clock: *rate* is how fast it runs, measured by the server's."""

    def __init__(self, loop: SimulatedLoop, name: str, *, rate: float = 1.0, offset: float = 0.0) -> None:
        self.loop = loop
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.frozen = 0.0  # seconds in all
        self.steps = 0
        self._surprises: dict[int, Callable[[], None]] = {}
        self._kept: list[asyncio.Handle] = []
        self._rate = rate
        self._offset = offset
        self._outside = contextvars.copy_context()
        self.context = contextvars.copy_context()
        self.context.run(_here.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str | None = None) -> asyncio.Task[Any]:
        return self.loop.create_task(work, name=name, context=self.context.copy())

    def do(self, act: Callable[..., object], *args: Any) -> None:
        """Have the process do something as its next step."""
        self.loop.call_soon(act, *args, context=self.context.copy())

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        """Have something happen to the process, or around it, whether it runs or not."""
        self.loop.call_later(seconds, act, context=self._outside)

    # --- its clock ---------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._offset + self.loop.time() * self._rate

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self.loop.call_at(self.true_time(when) + 1e-7, callback)  # rounding must not make a timer early

    def true_time(self, when: float) -> float:
        """Return when the server's clock shows what this process calls *when*."""
        return (when - self._offset) / self._rate

    # --- its fate ----------------------------------------------------------------------------------------------

    def admits(self, step: asyncio.Handle) -> bool:
        """Say whether *step* may run now; otherwise it is kept."""
        self.steps += 1
        if self._surprises and (surprise := self._surprises.pop(self.steps, None)):
            surprise()
        if self.is_frozen or self.is_dead:
            self._kept.append(step)
            return False
        return True

    def after_steps(self, steps: int, surprise: Callable[[], None]) -> None:
        """Have *surprise* between two steps of the process, *steps* from now."""
        self._surprises[self.steps + steps] = surprise

    def expect_nothing(self) -> None:
        """Forget the surprises that have not come yet."""
        self._surprises.clear()

    def freeze(self, seconds: float) -> None:
        if not (self.is_frozen or self.is_dead):
            self.is_frozen = True
            self.frozen += seconds
            self.after(seconds, self._thaw)

    def die(self) -> None:
        self.is_dead = True

    def revive(self) -> None:
        self.is_dead = False
        self._thaw()

    def _thaw(self) -> None:
        self.is_frozen = False
        if not self.is_dead:
            kept, self._kept = self._kept, []
            self.loop.run_again(kept)
