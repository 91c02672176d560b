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

__all__ = ["BeatLoop", "Beating", "How", "Plan", "Trigger", "Way"]

How = Literal["pending", "ready", "beat", "inner"]
Way = Literal["cancel", "scope", "timeout", "loss", "one", "all"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One sweep: how points are counted, and what strikes there and so many points later.

    `pending`: at a suspension, its answer still on the way. `ready`: the answer has come, the task has not seen it.
    `beat`: before any callback that the loop runs, so that nothing can happen between two points. `inner`: at a
    suspension of any task, also those that the client starts.

    `cancel` strikes the subject, `scope` and `timeout` what is around it, `loss` its hold on the server, `one` the task
    at hand, `all` every task there is.
    """

    how: How
    ways: tuple[Way, ...] = ("cancel",)
    gaps: tuple[int, ...] = ()

    def __str__(self) -> str:
        more = [f"+{gap} {way}" for gap, way in zip(self.gaps, self.ways[1:], strict=True)]
        return " ".join([self.how, self.ways[0], *more])


class Beating(asyncio.SelectorEventLoop):
    """Tells before every callback: those that somebody planned, and those of a socket that has something to read."""

    on_beat: Callable[[], None] | None = None

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return super().call_soon(self._beat, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return super().call_at(when, self._beat, callback, *args, context=context)

    def _add_callback(self, handle: asyncio.Handle) -> None:
        # The loop's own way for a socket's callbacks: nobody plans them. What a real server answers is heard there.
        super().call_soon(self._beat, _nothing)
        super()._add_callback(handle)  # type: ignore[misc]

    def _beat(self, callback: Callable[..., object], *args: Any) -> None:
        if self.on_beat is not None:
            self.on_beat()
        callback(*args)


def _nothing() -> None:
    pass


class BeatLoop(Beating, VirtualTimeLoop):
    """Does so in virtual time."""


class Trigger:
    """Counts the points of one run and strikes at one of them."""

    def __init__(self, plan: Plan, at: int) -> None:
        self.how = plan.how
        self.points = 0
        self.struck: list[Way] = []
        self.hits = 0  # cancels of the subject's task
        self.strikes: dict[Way, Callable[[], object]] = {}  # those that only whoever runs this can do
        self.is_armed = False
        due = [at]
        for gap in plan.gaps:
            due.append(due[-1] + gap)
        self._shots = deque(zip(due, plan.ways, strict=True))
        self._subject: asyncio.Task[Any] | None = None
        self._spared: set[asyncio.Task[Any]] = set()

    def aim(self, subject: asyncio.Task[Any], spared: set[asyncio.Task[Any]]) -> None:
        """Know whom to strike, and whom to spare when everybody is."""
        self._subject = subject
        self._spared = spared

    def arm(self) -> None:
        """Count from here."""
        loop = asyncio.get_running_loop()
        self.is_armed = True
        if self.how == "beat":
            assert isinstance(loop, Beating)
            loop.on_beat = self._beat
        elif self.how == "inner":
            loop.set_task_factory(self._new_task)

    def disarm(self) -> None:
        """Strike no more: the coroutine has ended."""
        loop = asyncio.get_running_loop()
        self.is_armed = False
        if self.how == "inner":
            loop.set_task_factory(None)
        elif isinstance(loop, Beating):
            loop.on_beat = None

    def watch(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return *work*, to be awaited, with its suspensions counted."""
        return work if self.how == "beat" else _Watched(work, self)

    def suspended(self, on: asyncio.Future[Any] | None) -> None:
        """Hear that a coroutine waits for *on*; nothing has seen its result before us."""
        way = self._due()
        if way is None:
            return
        at_hand = asyncio.current_task()
        if self.how == "ready" and on is not None:
            on.add_done_callback(lambda _: self._fire(way, at_hand))
        else:
            asyncio.get_running_loop().call_soon(self._fire, way, at_hand)

    def _new_task(self, loop: asyncio.AbstractEventLoop, work: Any, **settings: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Watched(work, self), loop=loop, **settings)

    def _beat(self) -> None:
        if (way := self._due()) is not None:
            self._fire(way, self._subject)

    def _due(self) -> Way | None:
        if not self.is_armed:
            return None
        self.points += 1
        if self._shots and self._shots[0][0] == self.points:
            return self._shots.popleft()[1]
        return None

    def _fire(self, way: Way, at_hand: asyncio.Task[Any] | None) -> None:
        if not self.is_armed:
            return
        self.struck.append(way)
        if way == "all":
            self._cancel(asyncio.all_tasks() - self._spared)
        elif way in ("one", "cancel"):
            self._cancel({at_hand if way == "one" else self._subject})
        else:
            self.strikes[way]()

    def _cancel(self, tasks: set[asyncio.Task[Any]] | set[asyncio.Task[Any] | None]) -> None:
        for task in tasks:
            if task is not None and task.cancel():
                self.hits += task is self._subject


class _Watched(Coroutine[Any, Any, Any]):
    """Steps a coroutine inside the task that awaits it, or that it is the coroutine of."""

    def __init__(self, work: Coroutine[Any, Any, Any], trigger: Trigger) -> None:
        self._work = work
        self._trigger = trigger

    def send(self, value: Any) -> Any:
        waits_for = self._work.send(value)
        self._trigger.suspended(waits_for)
        return waits_for

    def throw(self, *error: Any) -> Any:
        waits_for = self._work.throw(*error)
        self._trigger.suspended(waits_for)
        return waits_for

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        step, argument = self.send, None
        while True:
            try:
                waits_for = step(argument)
            except StopIteration as end:
                return end.value
            try:
                step, argument = self.send, (yield waits_for)
            except BaseException as error:
                step, argument = self.throw, error
