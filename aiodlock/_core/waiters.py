"""The local queue of a cohort: futures, in the order in which their tasks came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiodlock._core.wake import Waiter

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Waiters"]


class Waiters:
    """Tasks that wait for their turn, and tasks that only try."""

    __slots__ = ("dead", "engine", "tries", "waiters")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.waiters: deque[Waiter] = deque()
        self.dead = 0  # waiters that gave up and are still in the deque
        self.tries: deque[Waiter] = deque()

    def live(self) -> int:
        """Return how many wait."""
        return len(self.waiters) - self.dead

    def next_waiter(self) -> Waiter | None:
        """Take the first who still waits."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                self.engine.waiting -= 1
                return waiter
            self.dead -= 1
        return None

    def next_attempt(self) -> Waiter | None:
        """Take the first who still tries."""
        while self.tries:
            if not (waiter := self.tries.popleft()).done():
                return waiter
        return None

    def answer_tries(self) -> None:
        """Tell those who only try that there is no place now."""
        while (waiter := self.next_attempt()) is not None:
            self.engine.give(waiter, None)

    def tell_all(self, error: Callable[[], Exception]) -> None:
        """Give everybody an error of their own."""
        self.forget_dead()
        self.engine.waiting -= len(self.waiters)
        for waiter in (*self.waiters, *self.tries):
            if not waiter.done():
                waiter.set_exception(error())
        self.waiters.clear()
        self.tries.clear()

    def forget_dead(self) -> None:
        """Keep only those who wait."""
        alive = deque(waiter for waiter in self.waiters if not waiter.done())
        self.dead -= len(self.waiters) - len(alive)
        self.waiters = alive
