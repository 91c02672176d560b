"""The hold: what the user gets when inside.

A `Hold` is an ownership and its first handle in one. Acquiring again in the same task, entering with a child task, or
acquiring outside a block makes further handles of the same ownership; when the last one is released the ownership
ends and its place passes on.

A hold is made at every hand-off: what is rare is a class default, and `_simple` says that nothing rare has happened,
so that a contended release has one thing to look at.
"""

from __future__ import annotations

import asyncio
import enum
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio.lowlevel

from aiodlock._core.cancel import finish
from aiodlock._core.fence import COUNT_BITS
from aiodlock.errors import LockLostError, NotHeldError
from aiodlock.events import HoldAbandoned, HoldLost, TaskFailed
from aiodlock.policy import check_ttl

if TYPE_CHECKING:
    from aiodlock._core.cohort import Cohort
    from aiodlock._core.place import Place
    from aiodlock.policy import OnLost

__all__ = ["Hold", "HoldState", "Owners", "Task", "any_lost", "current_task"]

GRACE = 1.0  # how long a release waits for the server; then it goes on in the background
LEASE_ENDED = "its lease ended before a renewal was confirmed"

Task = asyncio.Task[Any]

# Asked twice per hold. Python 3.11's own takes as long as the rest of the bookkeeping of a hand-off.
current_task: Callable[[asyncio.AbstractEventLoop], Task | None] = (
    asyncio.current_task if sys.version_info >= (3, 12) else asyncio.tasks._current_tasks.get  # type: ignore[attr-defined]
)


class HoldState(enum.Enum):
    HELD = "held"
    LOST = "lost"
    RELEASED = "released"


HELD: Final = HoldState.HELD
LOST: Final = HoldState.LOST
RELEASED: Final = HoldState.RELEASED

_MOVES = {HELD: {LOST, RELEASED}, LOST: {RELEASED}, RELEASED: set[HoldState]()}


class Owners(dict["Task | None", "Hold"]):
    """Who of our tasks is inside one line; shared by all of its cohorts, gone with the last of them."""

    __slots__ = ("__weakref__", "released")

    def __init__(self) -> None:
        super().__init__()
        self.released: list[Hold] = []  # in blocks that are still open

    def innermost_block(self, task: Task | None) -> Hold | None:
        """Return the handle through which *task* entered last and has not left."""
        own = self.get(task)
        blocks = (*self.released, *(own._all_blocks if own is not None else ()))
        return next((block for block in reversed(blocks) if block._task is task), None)


class Hold:
    """A key that is held: its fence, the time left, and the way out.

    An async context manager: entering makes the entering task the owner, leaving releases.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_block",
        "_cohort",
        "_count",
        "_on_lost",
        "_place",
        "_since",
        "_state",
        "_task",
    )

    _simple = True
    _cancelled = False  # whether we cancelled the task of this block
    _cancelling = 0  # how often it was cancelled before the block
    _first: Hold | None = None  # the ownership that this is another handle of
    _is_guest = False  # whether another task than the owner has this handle
    # Of an ownership:
    _entries = 1  # handles not released yet
    _guests = 0  # how many of them other tasks have
    _blocks: tuple[Hold, ...] = ()  # further handles that are in a block
    _limit = math.inf
    _loss: str | None = None
    _revocation: str | None = None
    _abandoned = False
    _handles: tuple[weakref.ref[Hold], ...] = ()  # those made outside a block and not released yet
    _watchers: tuple[asyncio.Future[None], ...] = ()

    def __init__(self, cohort: Cohort, place: Place, count: int, now: float) -> None:
        self._cohort = cohort
        self._place = place
        self._count = count
        self._since = now
        self._state = HELD
        self._task: Task | None = None
        self._block: int | None = None  # in a block: the task's cancel requests before it
        self._on_lost: OnLost = "flag"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} {self._state.value}>"

    # --- what it tells -----------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What is held."""
        return self._cohort.line.key

    @property
    def fence(self) -> int:
        """A number larger than those of all earlier owners that this one excludes; check it where the data lives."""
        return (self._place.epoch << COUNT_BITS) + self._count

    @property
    def owner(self) -> str:
        """The client's name, as others see it."""
        return self._cohort.engine.name

    @property
    def acquired_at(self) -> datetime:
        """When it was acquired, in UTC."""
        return datetime.now(UTC) - timedelta(seconds=self._cohort.engine.now() - self._since)

    @property
    def remaining(self) -> float:
        """Seconds until the lease ends if it is not renewed again; 0 when lost or released."""
        if self._state is RELEASED or self.lost:
            return 0.0
        return max(0.0, self._own._deadline - self._cohort.engine.now())

    @property
    def lost(self) -> bool:
        """Whether it was lost while it was held: its lease ended, or it was taken away. Local, no I/O."""
        own = self._own
        return own._loss is not None if self._state is RELEASED else own._is_lost(self._cohort.engine.now())

    @property
    def is_released(self) -> bool:
        """Whether it was given back."""
        return self._state is RELEASED

    @property
    def revoked(self) -> bool:
        """Whether somebody asked the holder to let go."""
        return self._own._revocation is not None

    def check(self) -> None:
        """Raise `LockLostError` if the hold is lost, `NotHeldError` if it was released. Local, no I/O."""
        if self._state is RELEASED:
            raise self._not_held()
        if self.lost:
            raise self._lost_error()

    async def wait_lost(self) -> None:
        """Wait until the hold is lost.

        Cancellation: nothing is left behind; the hold is as it was.
        """
        await any_lost((self,))

    # --- what it does ------------------------------------------------------------------------------------------

    async def extend(self, ttl: float) -> None:
        """Have at least *ttl* seconds from now, at most until `max_hold` ends; a longer life is not shortened.

        Cancellation: the request is seen through in the background; the hold may live longer than before.
        """
        self.check()
        await self._cohort.engine.extend(self._place, check_ttl(ttl))
        self.check()

    async def release(self) -> None:
        """Give the lock back, from any task.

        The server is waited for at most a second; if it cannot be reached, leaving goes on in the background until the
        lease ends. A second release raises `NotHeldError`, one of a lost hold `LockLostError`.

        Cancellation: the release happens all the same, then the cancellation goes on.
        """
        left = self._give_back()
        if left is not None:
            await finish(left, within=GRACE)

    def release_nowait(self) -> None:
        """Give the lock back, as `release` does, and tell the server in the background. A plain function."""
        self._give_back()

    def reenter(self) -> Reentry:
        """Return a block for a child task, in which it holds the lock too; the last one out gives the place up."""
        return Reentry(self)

    async def __aenter__(self) -> Self:
        self.check()
        task = current_task(self._cohort.engine.loop)
        self._belong_to(task)
        self._begin_block(task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end_block(error)

    # --- handles -----------------------------------------------------------------------------------------------

    @property
    def _own(self) -> Hold:
        """The ownership: this, or what this is a handle of."""
        return self._first or self

    def _again(self, on_lost: OnLost) -> Self:
        """Return another handle of this ownership."""
        own = self._own
        own._simple = False
        own._entries += 1
        hold = type(self)(self._cohort, self._place, self._count, self._since)
        hold._simple, hold._first, hold._on_lost = False, own, on_lost
        if current_task(self._cohort.engine.loop) is not own._task:
            hold._is_guest = True
            own._guests += 1
        return hold

    def _hand_over(self, on_lost: OnLost) -> Self:
        """Return the first handle that the user has of a fresh ownership outside a block; this one is the engine's."""
        hold = self._again(on_lost)
        self._entries -= 1
        return hold

    def _watch_handle(self) -> None:
        """Notice when this handle, which no block keeps alive, is dropped."""
        own = self._own
        own._handles = (*own._handles, weakref.ref(self, own._collected))

    def _belong_to(self, task: Task | None) -> None:
        """Make *task* the owner."""
        own, owners = self._own, self._cohort.owners
        if own._task is not task:
            if owners.get(own._task) is own:
                del owners[own._task]
                owners.setdefault(task, own)
            own._task = task

    def _move(self, state: HoldState) -> None:
        if state not in _MOVES[self._state]:
            raise AssertionError(f"{self!r} cannot become {state.value}")
        self._state = state

    # --- blocks ------------------------------------------------------------------------------------------------

    def _begin_block(self, task: Task | None) -> None:
        """Be inside with *task*; only the outermost entry of a task is told of a loss, the others let it through."""
        assert task is not None
        own = self._own
        self._task = task
        if not any(block._task is task and block._block is not None for block in own._all_blocks):
            self._block = task.cancelling()
        if self is not own:
            own._blocks = (*own._blocks, self)

    async def _end_block(self, error: BaseException | None) -> None:
        """Leave the block: release, then let out what has to leave it. From its start no cancel of ours is sent."""
        was_outermost = self._block is not None
        left, is_lost = self._close_block()
        if is_lost:
            await self._let_out(error, was_outermost=was_outermost)
        elif left is not None:
            await finish(left, within=GRACE)

    def _close_block(self) -> tuple[asyncio.Future[None] | None, bool]:
        """Release; return what there is to wait for on the server, and whether a loss has to be let out."""
        own, self._block = self._own, None
        own._blocks = tuple(block for block in own._blocks if block is not self)
        if self._state is RELEASED:  # inside the block: nothing is left to do but to take a cancel back
            if self in self._cohort.owners.released:
                self._cohort.owners.released.remove(self)
            return None, own._loss is not None and self._cancelled
        own._is_lost(self._cohort.engine.now())
        return self._drop_entry(), own._loss is not None

    async def _let_out(self, error: BaseException | None, *, was_outermost: bool) -> None:
        """Let out of a lost block an outer cancel, the body's own error with a note, or `LockLostError`."""
        outer = self._cancelled and await self._take_back_cancel(error)
        loss = self._lost_error()
        if error is None or (self._cancelled and isinstance(error, asyncio.CancelledError)):
            # A cancelled scope knows its own errors only, and does not cancel a task that is being cancelled.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if not outer:
                raise loss from error
        if error is None:
            raise asyncio.CancelledError
        if isinstance(error, asyncio.CancelledError):
            return
        if was_outermost and not isinstance(error, LockLostError):
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

    # --- an ownership ------------------------------------------------------------------------------------------

    @property
    def _deadline(self) -> float:
        return min(self._place.deadline, self._limit)

    @property
    def _all_blocks(self) -> tuple[Hold, ...]:
        return self._blocks if self._block is None else (self, *self._blocks)

    def _set_limit(self, max_hold: float) -> None:
        """Be held no longer than *max_hold* in all."""
        self._simple = False
        self._limit = self._since + max_hold
        self._place.plan_visit(self._since)

    def _is_lost(self, now: float) -> bool:
        """Say whether it is lost, noticing it here if the process was frozen past the deadline."""
        if self._loss is None and self._entries and now >= self._deadline:
            self._overdue(now)
        return self._loss is not None

    def _overdue(self, now: float) -> None:
        if now >= self._place.deadline:
            self._place.lose(LEASE_ENDED)
            self._lose(LEASE_ENDED)
        else:
            self._cohort.over_limit(self)

    def _lose(self, reason: str) -> None:
        """Tell every handle that it is lost; final."""
        if self._loss is not None:
            return
        self._loss, self._simple = reason, False
        self._cohort.engine.emit(HoldLost(*self._cohort.line, self.fence, reason))
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        outside = [hold for handle in self._handles if (hold := handle())]
        for hold in {self, *self._blocks, *outside}:
            hold._hear_loss()
        if not self._all_blocks:
            self._disown()  # nobody may ever release it

    def _hear_loss(self) -> None:
        if self._state is not HELD:
            return
        self._move(LOST)
        loop = self._cohort.engine.loop
        if callable(self._on_lost):
            loop.call_soon(self._tell, self._on_lost)
        elif self._on_lost == "cancel" and self._task is _running_task():
            loop.call_soon(self._cancel)  # a cancel sent to the running task could arrive after its block
        elif self._on_lost == "cancel":
            self._cancel()

    def _cancel(self) -> None:
        if self._state is LOST and self._block is not None and self._task is not None:
            self._cancelling, self._cancelled = self._block, self._task.cancel(f"lock {self.key!r} was lost")

    def _tell(self, on_lost: Callable[[Hold], None]) -> None:
        try:
            on_lost(self)
        except Exception as error:
            self._cohort.engine.emit(TaskFailed(f"on_lost of {self.key!r}", repr(error)))

    def _visit(self, now: float) -> None:
        """Be looked after by the watchdog: not held too long, not forgotten by its tasks."""
        if now >= self._limit:
            self._overdue(now)
        elif not self._abandoned and all(_is_done(hold._task) for hold in (self, *self._blocks)):
            self._abandon()

    def _collected(self, handle: weakref.ref[Hold]) -> None:
        """Notice that a handle outside any block was dropped without release; after the last one nobody can."""
        self._handles = tuple(other for other in self._handles if other is not handle)
        if self._loss is not None or self._abandoned:
            return
        if self._entries > 1:
            self._entries -= 1
        else:
            self._abandon()
        message = f"a hold of {self.key!r} was dropped without release(): keep it and release it, or use 'async with'"
        warnings.warn(message, ResourceWarning, stacklevel=2)

    def _abandon(self) -> None:
        self._abandoned = True
        self._cohort.engine.emit(HoldAbandoned(*self._cohort.line, self.fence))

    def _give_back(self) -> asyncio.Future[None] | None:
        if self._state is RELEASED:
            raise self._not_held()
        lost = self.lost
        left = self._drop_entry()
        if lost:
            raise self._lost_error()
        return left

    def _drop_entry(self) -> asyncio.Future[None] | None:
        """Release this handle; the last one ends the ownership. Return what there is to wait for on the server."""
        self._move(RELEASED)
        own = self._own
        own._entries -= 1
        own._guests -= self._is_guest
        if own._handles:
            own._handles = tuple(handle for handle in own._handles if handle() is not self)
        if not own._entries:
            return own._end(self._cohort.engine.now())
        if own._entries == own._guests and self._cohort.owners.get(own._task) is own:
            del self._cohort.owners[own._task]  # the owner is out; asking again, it waits for its guests
        return None

    def _end_simply(self, now: float) -> asyncio.Future[None] | None:
        """End a simple ownership that is not lost."""
        self._state, self._entries = RELEASED, 0
        del self._cohort.owners[self._task]
        return self._cohort.give_back(self, now)

    def _end(self, now: float) -> asyncio.Future[None] | None:
        """End the ownership: its place passes on."""
        self._entries = 0
        self._disown()
        self._cohort.owners.released += self._all_blocks
        if self._cohort.engine.is_loud:
            self._cohort.engine.ownership_ended(self, now)
        return self._cohort.give_back(self, now)

    def _disown(self) -> None:
        owners = self._cohort.owners
        for task in {self._task, *(block._task for block in self._blocks)}:
            if owners.get(task) is self:
                del owners[task]

    def _not_held(self) -> NotHeldError:
        return NotHeldError(self.key, f"this hold of {self.key!r} was released already: acquire again for another")

    def _lost_error(self) -> LockLostError:
        return LockLostError(self.key, reason=self._own._loss or "unknown")


class Reentry:
    """A block in which a child task holds the lock too."""

    def __init__(self, hold: Hold) -> None:
        self._of = hold
        self._hold: Hold | None = None

    async def __aenter__(self) -> Hold:
        self._of.check()
        hold = self._hold = self._of._again(self._of._on_lost)
        task = current_task(hold._cohort.engine.loop)
        hold._begin_block(task)
        hold._cohort.owners.setdefault(task, hold._own)
        return hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold = self._hold
        assert hold is not None
        owners = hold._cohort.owners
        if hold._task is not hold._own._task and owners.get(hold._task) is hold._own:
            del owners[hold._task]
        await hold._end_block(error)


async def any_lost(holds: Collection[Hold]) -> None:
    """Wait until one of *holds* is lost."""
    if any(hold.lost for hold in holds):
        return
    watcher = asyncio.get_running_loop().create_future()
    for hold in holds:
        hold._own._watchers = (*hold._own._watchers, watcher)
    try:
        await watcher
    finally:
        for hold in holds:
            hold._own._watchers = tuple(other for other in hold._own._watchers if other is not watcher)


def _is_done(task: Task | None) -> bool:
    return task is not None and task.done()


def _running_task() -> Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
