"""Ownership: the engine's side of a hold.

One object is an ownership and its first handle. Acquiring again in the same task, entering with a child task, or
acquiring outside a block makes further handles of the same ownership; when the last one is released the ownership
ends and its place passes on.

It is made at every hand-off: what is rare is a class default, and `_simple` says that nothing rare has happened, so
that a contended release has one thing to look at.
"""

from __future__ import annotations

import asyncio
import enum
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast

from aiodlock.errors import LockLostError, NotHeldError
from aiodlock.events import HoldAbandoned, HoldLost, TaskFailed

if TYPE_CHECKING:
    from aiodlock._core.cohort import Cohort
    from aiodlock._core.hold import Hold
    from aiodlock._core.place import Place
    from aiodlock.policy import OnLost

__all__ = [
    "HELD",
    "LEASE_ENDED",
    "LOST",
    "RELEASED",
    "HoldState",
    "Owners",
    "Ownership",
    "Task",
    "current_task",
]

LEASE_ENDED = "its lease ended before a renewal was confirmed"

Task = asyncio.Task[Any]

# Asked twice per hold. Python 3.11's own takes as long as the rest of the bookkeeping of a hand-off.
current_task: Callable[[asyncio.AbstractEventLoop], Task | None] = (
    asyncio.current_task if sys.version_info >= (3, 12) else asyncio.tasks._current_tasks.get  # type: ignore[attr-defined]
)


class HoldState(enum.Enum):
    __hash__ = object.__hash__  # Enum's own is slow, and every move looks into a table

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

    def leave_open(self, blocks: Iterable[Hold]) -> None:
        """Remember *blocks* that are still to be left, of a hold that is released already."""
        self.released += [block for block in blocks if block not in self.released]

    def innermost_block(self, task: Task | None) -> Hold | None:
        """Return the handle through which *task* entered last and has not left."""
        own = self.get(task)
        blocks = (*self.released, *(own._all_blocks if own is not None else ()))
        return next((block for block in reversed(blocks) if block._task is task), None)


class Ownership:
    """One task inside one place, with one fence; and its first handle."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_block",
        "_cohort",
        "_fence",
        "_on_lost",
        "_place",
        "_simple",
        "_since",
        "_state",
        "_task",
    )

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

    def __init__(self, cohort: Cohort, place: Place, since: float, first: Hold | None = None) -> None:
        """Own *place*, with its next fence; or be another handle of what *first* owns."""
        self._cohort = cohort
        self._place = place
        if first is None:
            place.fence = fence = place.fence + 1
            self._simple = is_simple = fence < place.rare_from
            if not is_simple:
                place.end_count()
            place.holds = (self,)  # type: ignore[assignment]
        else:
            fence, self._simple, self._first = first._fence, False, first
        self._fence: Final[int] = fence
        self._since = since
        self._state = HELD
        self._task: Task | None = None
        self._block: int | None = None  # in a block: the task's cancel requests before it
        self._on_lost: OnLost = "flag"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} {self._state.value}>"

    @property
    def key(self) -> str:
        """What is held."""
        return self._cohort.line.key

    @property
    def _this(self) -> Hold:
        return cast("Hold", self)

    # --- handles -----------------------------------------------------------------------------------------------

    @property
    def _own(self) -> Hold:
        """The ownership: this, or what this is a handle of."""
        return self._first or self._this

    def _again(self, on_lost: OnLost) -> Self:
        """Return another handle of this ownership."""
        own = self._own
        own._simple = False
        own._entries += 1
        hold = type(self)(self._cohort, self._place, self._since, own)
        hold._on_lost = on_lost
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
        own._handles = (*own._handles, weakref.ref(self._this, partial(own._collected, self._is_guest)))

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
            self._cohort.owners.leave_open(block for block in own._all_blocks if block._task is own._task)
        return None

    def _end(self, now: float) -> asyncio.Future[None] | None:
        """End the ownership: its place passes on."""
        self._entries = 0
        self._disown()
        self._cohort.owners.leave_open(self._all_blocks)
        if self._cohort.engine.is_loud:
            self._cohort.engine.ownership_ended(self._this, now)
        return self._cohort.give_back(self._this, now)

    def _disown(self) -> None:
        owners = self._cohort.owners
        for task in {self._task, *(block._task for block in self._blocks)}:
            if owners.get(task) is self:
                del owners[task]

    # --- loss --------------------------------------------------------------------------------------------------

    @property
    def _deadline(self) -> float:
        return min(self._place.deadline, self._limit)

    @property
    def _all_blocks(self) -> tuple[Hold, ...]:
        return self._blocks if self._block is None else (self._this, *self._blocks)

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
            self._cohort.over_limit(self._this)

    def _lose(self, reason: str) -> None:
        """Tell every handle that it is lost; final."""
        if self._loss is not None:
            return
        self._loss, self._simple = reason, False
        self._cohort.engine.emit(HoldLost(*self._cohort.line, self._fence, reason))
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        outside = [hold for handle in self._handles if (hold := handle())]
        for hold in {self._this, *self._blocks, *outside}:
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
            on_lost(self._this)
        except Exception as error:
            self._cohort.engine.emit(TaskFailed(f"on_lost of {self.key!r}", repr(error)))

    def _visit(self, now: float) -> None:
        """Be looked after by the watchdog: not held too long, not forgotten by its tasks."""
        if now >= self._limit:
            self._overdue(now)
        elif not self._abandoned and all(_is_done(hold._task) for hold in (self._this, *self._blocks)):
            self._abandon()

    def _collected(self, is_guest: bool, handle: weakref.ref[Hold]) -> None:
        """Notice that a handle outside any block was dropped without release; after the last one nobody can."""
        self._handles = tuple(other for other in self._handles if other is not handle)
        if self._loss is not None or self._abandoned:
            return
        if self._entries > 1:
            self._entries -= 1
            self._guests -= is_guest
        else:
            self._abandon()
        message = f"a hold of {self.key!r} was dropped without release(): keep it and release it, or use 'async with'"
        warnings.warn(message, ResourceWarning, stacklevel=2)

    def _abandon(self) -> None:
        self._abandoned = True
        self._cohort.engine.emit(HoldAbandoned(*self._cohort.line, self._fence))

    def _adopt(self) -> None:
        """Be looked after again: a task enters that was forgotten by all."""
        if self._abandoned:
            self._abandoned = False
            self._cohort.engine.renew([self._place])

    def _not_held(self) -> NotHeldError:
        return NotHeldError(self.key, f"this hold of {self.key!r} was released already: acquire again for another")

    def _lost_error(self) -> LockLostError:
        return LockLostError(self.key, reason=self._own._loss or "unknown")


def _is_done(task: Task | None) -> bool:
    return task is not None and task.done()


def _running_task() -> Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
