"""The client's own clock: deadlines are instants on it, never on the wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

__all__ = ["Clock", "SystemClock", "Timer"]

# Keeps counting while the machine sleeps, so that a lease does not outlive a closed laptop.
_CLOCK_ID: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Timer(Protocol):
    """What :meth:`Clock.call_at` returns."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """An instant, and a way to be called at one."""

    @property
    def now(self) -> Callable[[], float]:
        """Seconds since some fixed instant; never goes back. A method will do."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call *callback* on the running loop, not before *when* and soon after it."""
        ...


class SystemClock:
    """The machine's clock since boot, suspended time included."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: Callable[[], float] = partial(time.clock_gettime, _CLOCK_ID)  # every hand-off reads it

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        # The loop's clock stands still while the machine sleeps: a timer may then be late,
        # so every callback compares now() with its deadline itself.
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), callback)
