"""Where a cancel strikes: at the k-th suspension of a coroutine, or before the k-th callback of its loop.

A suspension is seen by driving the coroutine from inside its own task. The cancel itself is always a real one, of the
task: throwing CancelledError into a coroutine leaves what it waits for pending, which asyncio never does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Literal

from aiodlock.testing import VirtualTimeLoop

__all__ = ["BeatLoop", "How", "Plan", "Trigger", "Way"]

How = Literal["pending", "ready", "beat"]
Way = Literal["cancel", "scope", "timeout", "loss"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One sweep: how points are counted, and what strikes there and so many points later.

    `pending`: at a suspension, its answer still on the way. `ready`: the answer has come, the task has not seen it.
    `beat`: before any callback that the loop runs, so that nothing can happen between two points.
    """

    how: How
    ways: tuple[Way, ...] = ("cancel",)
    gaps: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.how, self.ways[0], *(f"+{gap} {way}" for gap, way in zip(self.gaps, self.ways[1:]))])


class BeatLoop(VirtualTimeLoop):
    """Tells before every callback."""

    def __init__(self) -> None:
        super().__init__()
        self.on_beat: Callable[[], None] | None = None

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return super().call_soon(self._beat, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return super().call_at(when, self._beat, callback, *args, context=context)

    def _beat(self, callback: Callable[..., object], *args: Any) -> None:
        if self.on_beat is not None:
            self.on_beat()
        callback(*args)


class Trigger:
    """Counts the points of one run and strikes at one of them."""

    def __init__(self, plan: Plan, at: int) -> None:
        self.how = plan.how
        self.points = 0
        self.struck: list[Way] = []
        self.strike: dict[Way, Callable[[], object]] = {}  # how each of them is done, told by whoever runs this
        self.is_armed = False
        due = [at]
        for gap in plan.gaps:
            due.append(due[-1] + gap)
        self._shots = deque(zip(due, plan.ways, strict=True))

    def arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count from here."""
        self.is_armed = True
        if self.how == "beat":
            assert isinstance(loop, BeatLoop)
            loop.on_beat = self._beat

    def disarm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Strike no more: the coroutine has ended."""
        self.is_armed = False
        if isinstance(loop, BeatLoop):
            loop.on_beat = None

    def watch(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return *work*, to be awaited, with its suspensions counted."""
        return work if self.how == "beat" else _Watched(work, self)

    def suspended(self, on: asyncio.Future[Any] | None) -> None:
        """Hear that the coroutine waits for *on*; nothing has seen its result before us."""
        way = self._due()
        if way is None:
            return
        if self.how == "ready" and on is not None:
            on.add_done_callback(lambda _: self._fire(way))
        else:
            asyncio.get_running_loop().call_soon(self._fire, way)

    def _beat(self) -> None:
        if (way := self._due()) is not None:
            self._fire(way)

    def _due(self) -> Way | None:
        if not self.is_armed:
            return None
        self.points += 1
        if self._shots and self._shots[0][0] == self.points:
            return self._shots.popleft()[1]
        return None

    def _fire(self, way: Way) -> None:
        if self.is_armed:
            self.struck.append(way)
            self.strike[way]()


class _Watched:
    """Steps a coroutine by hand inside the task that awaits it."""

    def __init__(self, work: Coroutine[Any, Any, Any], trigger: Trigger) -> None:
        self._work = work
        self._trigger = trigger

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._work.send
        argument: Any = None
        while True:
            try:
                waits_for = step(argument)
            except StopIteration as end:
                return end.value
            self._trigger.suspended(waits_for)
            try:
                step, argument = self._work.send, (yield waits_for)
            except BaseException as error:
                step, argument = self._work.throw, error
