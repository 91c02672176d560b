"""The face that all synchronizers share, and the way of a task into a cohort and out again."""

from __future__ import annotations

import asyncio
import glob
from _thread import get_ident
from asyncio import CancelledError, Future
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from aiodlock._core.cohort import Cohort, Shape
from aiodlock._core.combine import Combiner
from aiodlock._core.hold import Hold
from aiodlock._core.leaving import NOTHING, see_off
from aiodlock._core.line import LineId, Row, Ticket
from aiodlock._core.ownership import RELEASED, Owners, Task, current_task
from aiodlock._core.wake import Waiter
from aiodlock.errors import AcquireTimeoutError, LockError, NotHeldError
from aiodlock.events import LockAcquired
from aiodlock.policy import DEFAULT, Default, Policy, check_wait

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.client import LockClient

__all__ = ["Synchronizer"]

_T = TypeVar("_T")
_HoldT = TypeVar("_HoldT", bound=Hold)
_NOBODY: Final = Owners()


class Synchronizer(Generic[_HoldT]):
    """A key and a policy: immutable, shared by any number of tasks. What is held is in the hold.

    ``async with lock as hold:`` acquires and releases.
    """

    _reenters = True  # whether a task that is inside enters again instead of queueing

    def __init__(self, client: LockClient, line: LineId, policy: Policy, shape: Shape) -> None:
        self._client = client
        self._line = line
        self._policy = policy
        self._shape = shape
        self._wait, self._max_hold, self._on_lost = policy.wait, policy.max_hold, policy.on_lost
        self._cohort: Cohort | None = None  # where to queue, while it is in use
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # which it runs in
        self._owners = _NOBODY  # which of our tasks are inside; the line's from the first acquire on

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._line.key!r}>"

    @property
    def key(self) -> str:
        """What is locked."""
        return self._line.key

    @property
    def policy(self) -> Policy:
        """How it behaves."""
        return self._policy

    async def acquire(self, wait: float | Default | None = DEFAULT) -> _HoldT:
        """Wait for the lock at most *wait* seconds (None: for ever; left out: the lock's own) and return the hold.

        Raise `AcquireTimeoutError` when the time is over, `BackendUnavailableError` when the server was silent for one
        ttl, and another `BackendError` at once when it refuses for good.

        Cancellation: nothing is left behind. The ticket leaves in the background, also one whose join is under way.
        """
        return await self._acquire(self._wait if isinstance(wait, Default) else check_wait(wait))

    async def try_acquire(self) -> _HoldT | None:
        """Return the hold if the lock is free now, else None; waits for one answer of the server at most.

        Cancellation: nothing is left behind.
        """
        try:
            return await self._acquire(0)
        except AcquireTimeoutError:
            return None

    async def __aenter__(self) -> _HoldT:
        cohort = self._cohort or self._enlist()
        task = current_task(self._loop)  # type: ignore[arg-type]
        if task is None or get_ident() != self._thread:
            self._client._at_work()  # raises in another loop; to ask which one it is would cost a system call
        if cohort.retired:
            cohort = self._enlist()
        if task in self._owners and (held := self._held_by(task, cohort.engine)) is not None:
            hold = self._again(held)
            hold._begin_block(task)
            return cast("_HoldT", hold)
        if cohort.open or self._wait is not None:
            own: Any = cohort.grab() or await self._obtain(cohort, self._wait)
        else:
            # What most contended acquires come to, written out: one frame, one future, no timer.
            waiter: Waiter = Future(loop=self._loop)
            cohort.queue(waiter)
            try:
                own = await waiter
            except CancelledError:
                cohort.give_up(waiter)
                raise
        if not own._simple or self._max_hold is not None:
            own = await self._prepare(own, self._wait)
        own._task = task
        own._on_lost = self._on_lost
        own._block = task.cancelling()  # type: ignore[union-attr]
        self._owners[task] = own
        return own  # type: ignore[no-any-return]

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        # Most releases have nothing to wait for, and a coroutine for each would be a good part of what they cost.
        task, owners = current_task(self._loop), self._owners  # type: ignore[arg-type]
        own = owners.get(task)
        if own is not None and own._simple:
            cohort, place = own._cohort, own._place
            clock = cohort.engine.now
            now = clock()
            if now < place.deadline:
                own._state = RELEASED
                del owners[task]
                left = cohort.give_back(own, now)
                return NOTHING if left is None else see_off(place, left)
        block = owners.innermost_block(task)
        if block is None:
            raise NotHeldError(self.key, f"this task did not enter {self.key!r}: acquire() gives a hold to pass around")
        return block._end_block(error)

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function under the lock and return its result.

        The functions of many tasks run one after the other in one step of the loop, for at most one batch; no task is
        switched between them. A task that holds the lock already runs its function at once.

        Cancellation: the function is not called if its turn has not come; nothing is left behind.
        """
        cohort = self._cohort or self._enlist()
        task = current_task(self._loop)  # type: ignore[arg-type]
        if task is None or get_ident() != self._thread:
            self._client._at_work()  # raises in another loop
        if cohort.retired:
            cohort = self._enlist()
        if task in cohort.owners and self._held_by(task, cohort.engine) is not None:
            return function()
        runs = cohort.runs or Combiner(cohort)
        now = runs.join(function)
        if not isinstance(now, Default):
            return now
        if self._wait is not None:
            return await self._run_at_most(function, cohort, self._wait)
        result = runs.add(function)
        try:
            return await result
        except CancelledError:
            runs.give_up()
            raise

    async def _run_at_most(self, function: Callable[[], _T], cohort: Cohort, wait: float) -> _T:
        if wait == 0:
            async with self:  # one answer of the server is waited for
                return function()
        runs = cohort.runs or Combiner(cohort)
        result: asyncio.Future[Any] = runs.add(function)
        cohort.engine.limit(result, wait, DEFAULT)
        try:
            outcome = await result
        except CancelledError:
            runs.give_up()
            raise
        if outcome is DEFAULT:
            runs.give_up()
            raise AcquireTimeoutError(self.key, waited=wait, holder=cohort.holder)
        return cast("_T", outcome)

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
            if place := engine.places.get(row.id):
                place.lose("force_release() took it away")  # a server does not tell the leaver's own client
            await engine.ask(engine.backend.leave(Ticket.of(self._line, row.id)))
        return len(inside)

    async def revoke(self, reason: str) -> int:
        """Ask those who are inside to let go, and return how many were asked; `Hold.revoked` tells them.

        Cancellation: they are asked or not; nothing else is left behind.
        """
        engine = self._client._at_work()
        return await engine.ask(engine.backend.revoke(self._line, reason))

    # --- acquiring ---------------------------------------------------------------------------------------------

    def _held_by(self, task: Task | None, engine: Engine) -> Hold | None:
        """Return what *task* holds of the line, to enter it again; raise where it would wait for itself."""
        own = engine.owners_of(self._line).get(task)
        if own is None:
            return None
        if own._is_lost(engine.now()):
            if any(block._task is task for block in own._all_blocks):
                raise own._lost_error()  # loss is final: it is not taken again while its block runs
            return None
        if not self._policy.reentrant:
            raise LockError(
                self.key, f"this task holds {self.key!r} already and it is not re-entrant: release it first"
            )
        return own

    def _is_held_here(self) -> bool:
        """Whether the current task holds it already."""
        engine = self._client._at_work()
        return self._held_by(current_task(engine.loop), engine) is not None

    def _again(self, held: Hold) -> Hold:
        """Return another handle of what this task holds already."""
        return held._again(self._on_lost)

    async def _acquire(self, limit: float | None) -> _HoldT:
        engine = self._client._at_work()
        held = self._held_by(current_task(engine.loop), engine)
        if held is None:
            return await self._take(await self._obtain(self._enlist(), limit), limit)
        hold = self._again(held)
        hold._watch_handle()
        return cast("_HoldT", hold)

    async def _take(self, own: Hold, limit: float | None) -> _HoldT:
        """Return the current task's handle of a fresh ownership."""
        own = await self._prepare(own, limit)
        own._task = current_task(own._cohort.engine.loop)
        if self._reenters:
            own._cohort.owners[own._task] = own
        hold = own._hand_over(self._on_lost)
        hold._watch_handle()
        return cast("_HoldT", hold)

    async def _obtain(self, cohort: Cohort, wait: float | None) -> Hold:
        own = cohort.grab()
        if own is None:
            own = await (self._attempt(cohort) if wait == 0 else self._queue_at_most(cohort, wait))
        return own

    async def _prepare(self, own: Hold, wait: float | None) -> Hold:
        """See to what is rare: lost between its grant and our step, it is waited for again."""
        while own._loss is not None:
            own._end(own._cohort.engine.now())
            own = await self._obtain(self._enlist(), wait)
        if self._max_hold is not None:
            own._set_limit(self._max_hold)
        if own._cohort.engine.is_loud:
            own._cohort.engine.emit(LockAcquired(*self._line, own._fence))
        return own

    async def _queue_at_most(self, cohort: Cohort, wait: float | None) -> Hold:
        waiter: Waiter = Future(loop=cohort.engine.loop)
        cohort.queue(waiter)
        if wait is not None:
            cohort.engine.limit(waiter, wait, None)
        try:
            own = await waiter
        except CancelledError:
            cohort.give_up(waiter)
            raise
        if own is None:
            cohort.give_up(waiter)
            raise AcquireTimeoutError(self.key, waited=wait or 0.0, holder=cohort.holder)
        return own

    async def _attempt(self, cohort: Cohort) -> Hold:
        waiter = cohort.attempt()
        try:
            own = await waiter
        except CancelledError:
            cohort.give_up_attempt(waiter)
            raise
        if own is None:
            raise AcquireTimeoutError(self.key, waited=0.0, holder=cohort.holder)
        return own

    def _enlist(self) -> Cohort:
        engine: Engine = self._client._at_work()
        cohort = self._cohort
        if cohort is not None and not cohort.retired:
            return cohort
        cohort = engine.cohort(self._line, self._shape, self._policy)
        self._loop, self._thread, self._owners = engine.loop, get_ident(), cohort.owners
        if self._policy.shares:
            self._cohort = cohort
        return cohort

    async def _rows(self) -> Sequence[Row]:
        engine = self._client._at_work()
        rows = await engine.ask(engine.backend.inspect(self._line.kind, glob.escape(self._line.key)))
        return [row for row in rows if row.key == self._line.key]
