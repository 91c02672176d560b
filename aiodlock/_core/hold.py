"""Ownership, and the hold that the user has of it.

An `Ownership` is the engine's record: one task inside one place, with one fence. A `Hold` is the user's handle. Acquiring again in the same task makes another
handle of the same ownership; when the last handle is released the ownership ends and its place passes on.
"""

from __future__ import annotations

import asyncio
import enum
import math
import warnings
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiodlock._core.cancel import finish
from aiodlock._core.fence import fence
from aiodlock.errors import LockLostError, NotHeldError
from aiodlock.events import HoldAbandoned, HoldLost, LockReleased, TaskFailed

if TYPE_CHECKING:
    from aiodlock._core.cohort import Cohort
    from aiodlock._core.place import Place
    from aiodlock.policy import OnLost

__all__ = ["Hold", "HoldState", "Ownership"]

GRACE = 1.0  # how long a release waits for the server; then it goes on in the background

Task = asyncio.Task[Any]


class Ownership:
    """One task inside one place: what all of its handles share."""

    __slots__ = (
        "__weakref__",
        "abandoned",
        "blocks",
        "cohort",
        "count",
        "entries",
        "handle",
        "limit",
        "loss",
        "place",
        "revocation",
        "since",
        "task",
        "watchers",
    )

    def __init__(self, cohort: Cohort, place: Place, count: int, now: float) -> None:
        self.cohort = cohort
        self.place = place
        self.count = count
        self.since = now
        self.task: Task | None = None
        self.entries = 1
        self.blocks: tuple[Hold, ...] = ()  # the outermost block of each task inside
        self.handle: weakref.ref[Hold] | None = None  # of a hold outside any block
        self.limit = math.inf
        self.loss: str | None = None
        self.revocation: str | None = None
        self.abandoned = False
        self.watchers: list[asyncio.Future[None]] | None = None

    @property
    def fence(self) -> int:
        return fence(self.place.epoch, self.count)

    @property
    def deadline(self) -> float:
        return min(self.place.deadline, self.limit)

    def take(self, task: Task, max_hold: float | None) -> None:
        """Become the ownership of *task*."""
        self.task = task
        self.cohort.owners[task] = self
        if max_hold is not None:
            self.limit = self.since + max_hold
            self.place.plan_visit(self.since)

    def is_lost(self, now: float) -> bool:
        """Say whether it is lost, noticing it here if the process was frozen past the deadline."""
        if self.loss is None and now >= self.deadline and self.entries:
            self._overdue(now)
        return self.loss is not None

    def visit(self, now: float) -> None:
        """Be looked after by the watchdog."""
        if now >= self.limit:
            self._overdue(now)
        elif not self.abandoned and self.task is not None and self.task.done():
            self.abandoned = all(block.task_is_done for block in self.blocks)
            if self.abandoned:
                self._emit_abandoned()

    def lose(self, reason: str) -> None:
        """Tell every handle that it is lost; final."""
        if self.loss is not None:
            return
        self.loss = reason
        self.cohort.engine.emit(HoldLost(*self.cohort.line, self.fence, reason))
        for watcher in self.watchers or ():
            if not watcher.done():
                watcher.set_result(None)
        for hold in self.handles():
            hold._hear_loss()

    def handles(self) -> list[Hold]:
        """Return the handles that want to hear of a loss."""
        outside = self.handle() if self.handle is not None else None
        return [*self.blocks] if outside is None or outside in self.blocks else [*self.blocks, outside]

    def leave_entry(self, now: float) -> asyncio.Future[None] | None:
        """Give one entry back; the last one ends the ownership."""
        self.entries -= 1
        return None if self.entries else self.end(now)

    def end(self, now: float) -> asyncio.Future[None] | None:
        """Pass the place on; return what there is to wait for on the server."""
        self.entries = 0
        cohort, place = self.cohort, self.place
        if self.task is not None and cohort.owners.get(self.task) is self:
            del cohort.owners[self.task]
        place.holds.pop(self, None)
        if cohort.engine.events is not None and self.task is not None:
            cohort.engine.emit(LockReleased(*cohort.line, self.fence, now - self.since))
        if not cohort.engine.is_open:
            cohort.engine.ownership_ended(self)
        return cohort.give_back(place, now)

    def collected(self, _: object) -> None:
        """Notice that the last handle outside a block was dropped without release."""
        if self.entries and not self.blocks and self.loss is None and not self.abandoned:
            self.abandoned = True
            self._emit_abandoned()
            warnings.warn(
                f"a hold of {self.cohort.line.key!r} was dropped without release(): it is renewed no more",
                ResourceWarning,
                stacklevel=2,
            )

    def _emit_abandoned(self) -> None:
        self.cohort.engine.emit(HoldAbandoned(*self.cohort.line, self.fence))

    def _overdue(self, now: float) -> None:
        if now >= self.place.deadline:
            self.place.lose("its lease ended before a renewal was confirmed")
            self.lose("its lease ended before a renewal was confirmed")  # the place may be gone for another reason
        else:
            self.cohort.over_limit(self)


class HoldState(enum.Enum):
    HELD = "held"
    LOST = "lost"
    RELEASED = "released"


class Hold:
    """What the user gets when inside: the fence, the time left, and the way out.

    An async context manager: entering makes the entering task the owner, leaving releases.
    """

    __slots__ = ("__weakref__", "_cancelled", "_cancelling", "_on_lost", "_outer", "_own", "_released", "_task")

    def __init__(self, own: Ownership, on_lost: OnLost) -> None:
        self._own = own
        self._on_lost = on_lost
        self._released = False
        self._task: Task | None = None  # of the block entered through this handle, if it is its task's outermost
        self._cancelling = 0
        self._cancelled = False
        self._outer: Hold | None = None  # the entry of the same task and lock object around this one

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} {self.state.value} fence={self._own.fence}>"

    @property
    def state(self) -> HoldState:
        if self._released:
            return HoldState.RELEASED
        return HoldState.LOST if self.lost else HoldState.HELD

    @property
    def key(self) -> str:
        return self._own.cohort.line.key

    @property
    def fence(self) -> int:
        """A number that is larger for every later ownership of this key; check it where the protected data lives."""
        return self._own.fence

    @property
    def owner(self) -> str:
        """The client's name, as others see it."""
        return self._own.cohort.engine.name

    @property
    def acquired_at(self) -> datetime:
        held = self._own.cohort.engine.clock.now() - self._own.since
        return datetime.now(UTC) - timedelta(seconds=held)

    @property
    def remaining(self) -> float:
        """Seconds until the lease ends if it is not renewed again; 0 when lost or released."""
        if self._released or self.lost:
            return 0.0
        return max(0.0, self._own.deadline - self._own.cohort.engine.clock.now())

    @property
    def lost(self) -> bool:
        """Whether the lease ended while this was held. Local: past the deadline it says so before any I/O."""
        return self._own.is_lost(self._own.cohort.engine.clock.now())

    @property
    def revoked(self) -> bool:
        """Whether somebody asked the holder to let go."""
        return self._own.revocation is not None

    @property
    def task_is_done(self) -> bool:
        return self._task is None or self._task.done()

    def check(self) -> None:
        """Raise `LockLostError` if the hold is lost, `NotHeldError` if it was released. Local, no I/O."""
        if self._released:
            raise self._not_held()
        if self.lost:
            raise self._lost_error()

    async def wait_lost(self) -> None:
        """Wait until the hold is lost.

        Cancellation: nothing is left behind; the hold is as it was.
        """
        if self.lost:
            return
        watcher = self._own.cohort.engine.loop.create_future()
        if self._own.watchers is None:
            self._own.watchers = []
        self._own.watchers.append(watcher)
        try:
            await watcher
        finally:
            self._own.watchers.remove(watcher)

    async def extend(self, ttl: float) -> None:
        """Have at least *ttl* seconds from now, at most until `max_hold` ends; a longer life is not shortened.

        Cancellation: the request is seen through in the background; the hold may live longer than before.
        """
        self.check()
        await self._own.cohort.engine.extend(self._own.place, ttl)
        self.check()

    async def release(self) -> None:
        """Give the lock back, from any task.

        The server is waited for at most a second; if it cannot be reached, leaving goes on in the background until the lease ends.
        A second release raises `NotHeldError`, one of a lost hold `LockLostError`.

        Cancellation: the release happens all the same, then the cancellation goes on.
        """
        left = self._give_back()
        if left is not None:
            await finish(left, within=GRACE)

    def release_nowait(self) -> None:
        """Give the lock back and tell the server in the background."""
        self._give_back()

    def reenter(self) -> Reentry:
        """Return a block for a child task: inside it the lock is held by that task too; the last one out gives it up."""
        return Reentry(self)

    async def __aenter__(self) -> Self:
        self.check()
        own, task = self._own, _current_task()
        if own.task is not task:
            if own.task is not None and own.cohort.owners.get(own.task) is own:
                del own.cohort.owners[own.task]
            own.task = task
            own.cohort.owners.setdefault(task, own)
        self._begin_block(task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = self._end_block(error)
        if self._cancelled or self._own.loss is not None:
            await self._settle(error)
        if left is not None:
            await finish(left, within=GRACE)

    # --- blocks ------------------------------------------------------------------------------------------------

    def _begin_block(self, task: Task) -> None:
        """Be inside with *task*; only the outermost entry of a task is told of a loss, the others let it through."""
        own = self._own
        if not own.blocks:
            own.blocks = (self,)
        elif any(block._task is task for block in own.blocks):
            return
        else:
            own.blocks = (*own.blocks, self)
        self._task = task
        self._cancelling = task.cancelling()

    def _end_block(self, error: BaseException | None) -> asyncio.Future[None] | None:
        """Leave the block: from here on no cancel of ours is sent. Return what there is to wait for on the server."""
        own, now = self._own, self._own.cohort.engine.clock.now()
        if self._task is not None:
            own.blocks = () if len(own.blocks) == 1 else tuple(b for b in own.blocks if b is not self)
        if self._released:  # released inside the block: nothing is left to do
            return None
        own.is_lost(now)
        self._released = True
        return own.leave_entry(now)

    async def _settle(self, error: BaseException | None) -> None:
        """Let out of a lost block what has to leave it: an outer cancel, the body's own error, or `LockLostError`."""
        outer = await self._take_back_cancel(error) if self._cancelled else False
        loss = self._lost_error()
        if error is None:
            raise asyncio.CancelledError if outer else loss
        if isinstance(error, asyncio.CancelledError):
            if self._cancelled and not outer:
                raise loss from error
        elif error is not loss and not isinstance(error, LockLostError):
            error.add_note(str(loss))

    async def _take_back_cancel(self, error: BaseException | None) -> bool:
        """Undo our cancel of this task; return whether somebody else cancelled it as well."""
        task = self._task
        assert task is not None
        undelivered = bool(getattr(task, "_must_cancel", False))
        if undelivered:
            # Python 3.11 and 3.12 deliver it at the next await even after uncancel(): take it here.
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                pass
        outer = task.uncancel() > self._cancelling
        if outer and undelivered and error is not None:
            task.cancel()  # the outer one was taken with ours: give it back
            task.uncancel()
        return outer

    def _hear_loss(self) -> None:
        if callable(self._on_lost):
            self._own.cohort.engine.loop.call_soon(self._tell, self._on_lost)
        elif self._on_lost == "cancel" and self._task is not None and self._task is not _running_task():
            self._cancelled = self._task.cancel(f"lock {self.key!r} was lost")

    def _tell(self, on_lost: Callable[[Hold], None]) -> None:
        try:
            on_lost(self)
        except Exception as error:
            self._own.cohort.engine.emit(TaskFailed(f"on_lost of {self.key!r}", repr(error)))

    # --- inner -------------------------------------------------------------------------------------------------

    def _give_back(self) -> asyncio.Future[None] | None:
        if self._released:
            raise self._not_held()
        own, now = self._own, self._own.cohort.engine.clock.now()
        lost = own.is_lost(now)
        self._released = True
        left = own.leave_entry(now)
        if lost:
            raise self._lost_error()
        return left

    def _not_held(self) -> NotHeldError:
        return NotHeldError(self.key, f"this hold of {self.key!r} was released already: acquire again for another")

    def _lost_error(self) -> LockLostError:
        return LockLostError(self.key, reason=self._own.loss or "unknown")


class Reentry:
    """A block in which a child task holds the lock too."""

    def __init__(self, hold: Hold) -> None:
        self._of = hold
        self._hold: Hold | None = None

    async def __aenter__(self) -> Hold:
        self._of.check()
        self._of._own.entries += 1
        self._hold = type(self._of)(self._of._own, self._of._on_lost)
        self._hold._begin_block(_current_task())
        return self._hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._hold is not None
        await self._hold.__aexit__(kind, error, trace)


def _current_task() -> Task:
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    return task


def _running_task() -> Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
