"""The lock: a line of size 1. Also the face that all synchronizers share."""

from __future__ import annotations

import asyncio
import glob
import math
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from aiodlock._core.cancel import finish
from aiodlock._core.cohort import Cohort
from aiodlock._core.hold import GRACE, Hold, Ownership
from aiodlock._core.line import LineId, Row, Ticket
from aiodlock.clock import Timer
from aiodlock.errors import AcquireTimeoutError, LockError, NotHeldError, TooManyWaitersError
from aiodlock.events import LockAcquired
from aiodlock.policy import DEFAULT, Default, Policy, check_wait

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["Lock"]

T = TypeVar("T")
Task = asyncio.Task[Any]


class Lock:
    """A key and a policy: immutable, shared by any number of tasks. What is held is in the `Hold`.

    ``async with lock as hold:`` acquires and releases. Made by `LockClient.lock`.
    """

    def __init__(self, client: LockClient, line: LineId, policy: Policy, *, size: int = 1, weight: int = 1) -> None:
        self._client = client
        self._line = line
        self._policy = policy
        self._size = size
        self._weight = weight
        self._cohort: Cohort | None = None  # the last one used, while it is in use
        self._entries: dict[Task, Hold] = {}  # blocks entered through this object, innermost of each task

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._line.key!r}>"

    @property
    def key(self) -> str:
        return self._line.key

    @property
    def policy(self) -> Policy:
        return self._policy

    async def acquire(self, wait: float | None | Default = DEFAULT) -> Hold:
        """Wait for the lock at most *wait* seconds (None: for ever; left out: the lock's own) and return the hold.

        Raise `AcquireTimeoutError` when the time is over and `BackendUnavailableError` when the server was silent for one ttl.

        Cancellation: nothing is left behind. The ticket leaves in the background, also one whose join is still under way.
        """
        return self._outside(await self._acquire(self._policy.wait if isinstance(wait, Default) else check_wait(wait)))

    async def try_acquire(self) -> Hold | None:
        """Return the hold if the lock is free now, else None; waits for one answer of the server at most.

        Cancellation: nothing is left behind.
        """
        try:
            return self._outside(await self._acquire(0))
        except AcquireTimeoutError:
            return None

    async def __aenter__(self) -> Hold:
        own = await self._acquire(self._policy.wait)
        task = own.task
        assert task is not None
        hold = Hold(own, self._policy.on_lost)
        hold._begin_block(task)
        hold._outer = self._entries.get(task)
        self._entries[task] = hold
        return hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold = self._entries.pop(_current_task(), None)
        if hold is None:
            raise NotHeldError(
                self.key, f"this task did not enter {self.key!r} here: use acquire() to release elsewhere"
            )
        if hold._outer is not None:
            self._entries[_current_task()] = hold._outer
        left = hold._end_block(error)
        if hold._cancelled or hold._own.loss is not None:
            await hold._settle(error)
        if left is not None:
            await finish(left, within=GRACE)

    async def locked(self) -> bool:
        """Ask the server whether anybody is inside.

        Cancellation: nothing is left behind.
        """
        return any(row.inside for row in await self._rows())

    async def holder(self) -> str | None:
        """Ask the server for the name of the client inside.

        Cancellation: nothing is left behind.
        """
        return next((row.owner for row in await self._rows() if row.inside), None)

    async def force_release(self) -> int:
        """Make exactly those leave who are inside now, whoever they are; return how many. They lose their holds.

        Cancellation: each ticket has left or is still inside; nothing else is left behind.
        """
        engine = self._client._at_work()
        inside = [row for row in await self._rows() if row.inside]
        for row in inside:
            await engine.ask(engine.backend.leave(Ticket(self._line, row.id)))
        return len(inside)

    async def run(self, function: Callable[[], T]) -> T:
        """Call a plain function under the lock and return its result.

        The functions of many tasks run one after the other in one step of the loop, for at most one batch; no task is
        switched between them. A task that holds the lock already runs its function at once.

        Cancellation: the function is not called if its turn has not come; nothing is left behind.
        """
        if self._held_by(_current_task()) is not None:
            return function()
        cohort = self._current_cohort()
        result = cohort.runs.add(function)
        timer = self._limit(result, self._policy.wait)
        try:
            return await result
        except asyncio.CancelledError:
            cohort.runs.give_up()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    # --- acquiring ---------------------------------------------------------------------------------------------

    async def _acquire(self, wait: float | None) -> Ownership:
        task = _current_task()
        if (own := self._held_by(task)) is not None:
            own.entries += 1
            return own
        while True:
            cohort = self._current_cohort()
            own = cohort.grab() or await self._queue(cohort, wait)
            if own.loss is None:
                own.take(task, self._policy.max_hold)
                if cohort.engine.events is not None:
                    cohort.engine.emit(LockAcquired(*self._line, own.fence))
                return own
            own.end(cohort.engine.clock.now())  # lost between its grant and our turn: stand again

    async def _queue(self, cohort: Cohort, wait: float | None) -> Ownership:
        engine = cohort.engine
        if engine.waiting >= engine.most_waiters:
            raise TooManyWaitersError(self.key, f"{engine.waiting} tasks wait already: raise max_waiters or shed load")
        waiter = cohort.attempt() if wait == 0 else cohort.queue()
        if waiter is None:
            raise self._not_in_time(cohort, 0.0)
        began = engine.clock.now() if wait else 0.0
        timer = self._limit(waiter, wait)
        engine.waiting += 1
        try:
            own = await waiter
        except asyncio.CancelledError:
            cohort.give_up(waiter)
            raise
        finally:
            engine.waiting -= 1
            if timer is not None:
                timer.cancel()
        if own is None:
            if wait:
                cohort.give_up(waiter)
            raise self._not_in_time(cohort, engine.clock.now() - began if wait else 0.0)
        return own

    def _held_by(self, task: Task) -> Ownership | None:
        """Return what *task* holds of this line, to enter it again; raise where that would wait for itself."""
        cohort = self._cohort
        owners = cohort.owners if cohort is not None else self._client._at_work().owners_of(self._line)
        own = owners.get(task)
        if own is None or own.loss is not None:
            return None
        if not self._policy.reentrant:
            raise LockError(
                self.key, f"this task holds {self.key!r} already and it is not re-entrant: release it first"
            )
        return own

    def _current_cohort(self) -> Cohort:
        cohort = self._cohort
        if cohort is None or cohort.retired or not self._policy.shares:
            engine = self._client._at_work()
            cohort = engine.cohort(self._line, size=self._size, weight=self._weight, policy=self._policy)
            self._cohort = cohort
        return cohort

    def _limit(self, waiter: asyncio.Future[Any], wait: float | None) -> Timer | None:
        """Let *waiter* end without a result when *wait* is over."""
        if not wait or wait == math.inf:
            return None
        clock = self._client._at_work().clock
        return clock.call_at(clock.now() + wait, lambda: None if waiter.done() else waiter.set_result(None))

    def _not_in_time(self, cohort: Cohort, waited: float) -> AcquireTimeoutError:
        return AcquireTimeoutError(self.key, waited=waited, holder=cohort.holder)

    def _outside(self, own: Ownership) -> Hold:
        """Return a handle that no block keeps alive: if it is dropped, the ownership is renewed no more."""
        hold = Hold(own, self._policy.on_lost)
        own.handle = weakref.ref(hold, own.collected)
        return hold

    async def _rows(self) -> Sequence[Row]:
        engine = self._client._at_work()
        rows = await engine.ask(engine.backend.inspect(self._line.kind, glob.escape(self._line.key)))
        return [row for row in rows if row.key == self._line.key]


def _current_task() -> Task:
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    return task
