"""The hold: what the user gets when inside."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from aiodlock._core.block import Block
from aiodlock._core.leaving import see_off
from aiodlock._core.ownership import RELEASED, current_task
from aiodlock.errors import UnsupportedError
from aiodlock.policy import check_ttl

__all__ = ["Hold", "any_lost"]


class Hold(Block):
    """A key that is held: its fence, the time left, and the way out.

    An async context manager: entering makes the entering task the owner, leaving releases.
    """

    __slots__ = ()

    _nested = 0  # entries of its task inside its own block

    @property
    def fence(self) -> int:
        """Larger than those of all earlier owners that this one excludes; check it where the data lives.

        Raise `UnsupportedError` where the hold is degraded.
        """
        if self._cohort.engine.fallback is not None and self.degraded:
            raise UnsupportedError(f"the hold of {self.key!r} is degraded, and has no fence: write when it is not")
        return self._fence

    @property
    def degraded(self) -> bool:
        """Whether it is one of the fallback server: it excludes only those who degraded to the same one."""
        fallback = self._cohort.engine.fallback
        return fallback is not None and fallback.has_lent(self._place)

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
        """Wait until the hold is lost; a release does not end the wait. Raise `NotHeldError` if it was released before.

        Cancellation: nothing is left behind; the hold is as it was.
        """
        if self._state is RELEASED and not self.lost:
            raise self._not_held()
        await any_lost((self,))

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
        if (left := self._give_back()) is not None:
            await see_off(self._place, left)

    def release_nowait(self) -> None:
        """Give the lock back, as `release` does, and tell the server in the background. A plain function."""
        self._give_back()

    def reenter(self) -> Reentry:
        """Return a block for a child task, in which it holds the lock too; the last one out gives the place up."""
        return Reentry(self)

    async def __aenter__(self) -> Self:
        self.check()
        task = current_task(self._cohort.engine.loop)
        if self in self._own._all_blocks and self._task is task:
            self._nested += 1  # in its own block: that one releases
        else:
            self._belong_to(task)
            self._begin_block(task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nested:
            self._nested -= 1
        else:
            await self._end_block(error)

    def _give_back(self) -> asyncio.Future[None] | None:
        if self._state is RELEASED:
            raise self._not_held()
        lost = self.lost
        left = self._drop_entry()
        if lost:
            raise self._lost_error()
        return left


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
