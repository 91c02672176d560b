"""Clocks for tests: one that moves when told, and an event loop whose time passes by itself."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aiodlock.clock import Timer

__all__ = ["FakeClock", "LoopClock", "VirtualTimeLoop", "run_virtual", "settle"]

_T = TypeVar("_T")


async def settle() -> None:
    """Let everything run that can run without time passing."""
    for _ in range(50):
        await asyncio.sleep(0)


class _FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Stands still until `advance` is awaited. Give it to `connect(clock=)`; a memory server then uses it too."""

    def __init__(self, start: float = 1_000.0) -> None:
        self._now = start
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _FakeTimer]] = []

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = _FakeTimer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    @property
    def timers(self) -> int:
        """How many timers are armed."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def jump(self, seconds: float) -> None:
        """Move the clock and call nobody: a process that was frozen and has not noticed yet."""
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Move the clock, stopping at every timer on the way to let its consequences happen.

        Cancellation: the clock stays where it is.
        """
        until = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
                await settle()
        self._now = until
        await settle()


class _VirtualSelector(selectors.DefaultSelector):
    """Looks at real files without waiting, and lets virtual time pass instead."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits and no timer is set: nothing will ever happen")
        if not ready and timeout is not None:
            self.passed += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which sleeping takes no time: the clock jumps to the next timer when nothing else can run."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return 1_000.0 + self._virtual.passed


class LoopClock:
    """The running loop's own time, for a `VirtualTimeLoop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self.now: Callable[[], float] = self._loop.time

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_at(when, callback)


def run_virtual(main: Coroutine[Any, Any, _T]) -> _T:
    """Run *main* on a `VirtualTimeLoop` of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
