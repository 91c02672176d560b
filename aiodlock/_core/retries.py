"""Tries instead of waiting: with `Retry` nobody stands in line, so each waiter's tries are counted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiodlock.clock import Timer
from aiodlock.errors import AcquireTimeoutError
from aiodlock.policy import Retry

if TYPE_CHECKING:
    from aiodlock._core.tickets import Tickets
    from aiodlock._core.wake import Waiter

__all__ = ["Retries"]


class Retries:
    """The tries of a cohort's waiters, and the pause between two of them."""

    def __init__(self, cohort: Tickets, retry: Retry) -> None:
        self._cohort = cohort
        self._retry = retry
        self._tried: dict[Waiter, int] = {}
        self._timer: Timer | None = None

    @property
    def is_pausing(self) -> bool:
        return self._timer is not None

    def count(self) -> None:
        """Count a try of everybody who waits, let those go who had all of theirs, and try again after a pause."""
        cohort, retry = self._cohort, self._retry
        cohort.forget_dead()
        self._tried = {waiter: self._tried.get(waiter, 0) + 1 for waiter in cohort.waiters}
        waited = (retry.times - 1) * retry.interval
        for waiter in [waiter for waiter, tries in self._tried.items() if tries >= retry.times]:
            cohort.waiters.remove(waiter)
            cohort.engine.waiting -= 1
            waiter.set_exception(AcquireTimeoutError(cohort.line.key, waited=waited, holder=cohort.holder))
        if cohort.waiters:
            self._timer = cohort.engine.clock.call_at(cohort.engine.now() + retry.interval, self._try_again)
        else:
            cohort.balance()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try_again(self) -> None:
        self._timer = None
        self._cohort.balance()
