"""A race: one task waits for several locks of one client at once, and has the first that it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aiodlock._core.cohort import Cohort
from aiodlock._core.hold import Hold
from aiodlock._core.wake import Waiter
from aiodlock.locks.base import Synchronizer

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Race"]

_LockT = TypeVar("_LockT", bound=Synchronizer[Any])


class Race(Generic[_LockT]):
    """One task that waits in the cohorts of several locks at once: the first one in wins, the others leave."""

    holder: str | None = None  # of some lock, for error messages

    def __init__(self, engine: Engine) -> None:
        self.over: asyncio.Future[None] = engine.loop.create_future()  # somebody is in, or nobody will be
        self._engine = engine
        self._runners: dict[Waiter, tuple[_LockT, Cohort, Callable[[Waiter], None]]] = {}
        self._running = 0

    def start(self, locks: Sequence[_LockT], first: _LockT, wait: float | None) -> None:
        """Queue for all of *locks*, but stand in line for *first* alone until it is known to be taken.

        So a free one costs one ticket and not one for each, and who asks first is first in every queue.
        """
        if wait == 0:
            for lock in sorted(locks, key=lambda lock: lock is not first):  # the first to answer wins
                self._enter(lock, only_try=True)
            return
        tried = self._enter(first, only_try=True)
        for lock in locks:
            self._enter(lock, only_try=False)
        tried.add_done_callback(self._stand)
        if wait is not None:
            self._engine.limit(self.over, wait, None)

    def winner(self) -> tuple[_LockT, Hold] | None:
        """Take out who is in; if nobody will be, raise what one of them got instead."""
        for waiter, (lock, _, _) in self._runners.items():
            if (own := _own_of(waiter)) is not None:
                del self._runners[waiter]
                return lock, own
        if not self._running:
            for waiter in self._runners:
                waiter.result()
        return None

    def end(self) -> None:
        """Give up the others, and what they got meanwhile."""
        for waiter, (_, cohort, give_up) in self._runners.items():
            self.holder = self.holder or cohort.holder
            waiter.cancel()
            give_up(waiter)

    def _enter(self, lock: _LockT, *, only_try: bool) -> Waiter:
        cohort = lock._enlist()
        own = cohort.grab()
        if own is not None:
            waiter: Waiter = self._engine.loop.create_future()
            waiter.set_result(own)
        else:
            waiter = cohort.attempt() if only_try else _in_queue(cohort)
        self._runners[waiter] = lock, cohort, cohort.give_up_attempt if only_try else cohort.give_up
        self._running += 1
        waiter.add_done_callback(self._ended)
        return waiter

    def _stand(self, tried: Waiter) -> None:
        if not self.over.done():
            for _, cohort, _ in self._runners.values():
                cohort.balance()

    def _ended(self, waiter: Waiter) -> None:
        self._running -= 1
        if (not self._running or _own_of(waiter) is not None) and not self.over.done():
            self.over.set_result(None)


def _in_queue(cohort: Cohort) -> Waiter:
    waiter: Waiter = cohort.engine.loop.create_future()
    cohort.queue(waiter, stand=False)
    return waiter


def _own_of(waiter: Waiter) -> Hold | None:
    """Return what *waiter* got, if it got anything."""
    return waiter.result() if waiter.done() and not waiter.cancelled() and not waiter.exception() else None
