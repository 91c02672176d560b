"""The segmented lock: one hot key spread over N locks, and a router in front."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.routing import segment_of
from aiodlock.errors import AcquireTimeoutError
from aiodlock.locks.agreement import Agreement, Guard, longer_than, segment_line
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.multi import MultiLock
from aiodlock.locks.race import Race
from aiodlock.locks.several import Several
from aiodlock.policy import Policy, check_count, check_key

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["AnySegment", "SegmentHold", "SegmentLock", "SegmentedLock"]

_T = TypeVar("_T")

_MOST_SEGMENTS = 1024


class SegmentHold(Hold):
    """One segment of a key."""

    __slots__ = ()

    @property
    def key(self) -> str:
        """The key that is segmented."""
        return super().key.rpartition(":")[0]

    @property
    def segment(self) -> int:
        """Which segment is held."""
        return int(super().key.rpartition(":")[2])

    async def extend(self, ttl: float) -> None:
        """Have at least *ttl* seconds from now, as `Hold.extend` does; the agreement on their number lasts as long.

        Cancellation: the request is seen through in the background; the hold may live longer than before.
        """
        await super().extend(ttl)
        if (guard := self._guard) is not None and guard._deadline < self._place.deadline:
            await guard.extend(longer_than(ttl))

    @property
    def _guard(self) -> Guard | None:
        return Guard.of(self._cohort.engine, self.key)

    @property
    def _deadline(self) -> float:
        guard = self._guard
        return super()._deadline if guard is None else min(super()._deadline, guard._deadline)

    def _overdue(self, now: float) -> None:
        if (guard := self._guard) is None or not guard._is_lost(now):  # else we were lost with it
            super()._overdue(now)


class SegmentLock(Synchronizer[SegmentHold]):
    """One segment of a key, as a lock."""

    def __init__(self, whole: SegmentedLock, segment: int) -> None:
        line = segment_line(whole.key, segment)
        super().__init__(whole._client, line, whole._policy, Shape(hold=SegmentHold))
        self._agreement = whole._agreement
        self.segment = segment

    async def __aenter__(self) -> SegmentHold:
        if self._agreement.is_held():
            hold = await super().__aenter__()
            if self._agreement.is_held():
                return hold
            hold._close_block()  # the guard was lost while this task waited: it waits for both
        hold = await self._acquire(self._wait)
        return await hold.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._agreement.is_held()  # so that a loss is noticed before the segment is passed on
        await super().__aexit__(kind, error, trace)

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function under the lock of this segment, as `Synchronizer.run` does.

        Cancellation: the function is not called if its turn has not come; nothing is left behind.
        """

        def guarded() -> _T:
            if not self._agreement.is_held():
                raise _UnguardedError
            return function()

        if self._agreement.is_held():
            try:
                return await super().run(guarded)
            except _UnguardedError:  # the guard was lost while this task waited
                pass
        async with self:
            return function()

    async def _acquire(self, limit: float | None) -> SegmentHold:
        return await super()._acquire(await self._agreement.agree(limit))

    async def _take(self, own: Hold, limit: float | None) -> SegmentHold:
        hold = await super()._take(own, limit)
        try:
            await self._agreement.agree(limit)  # the guard may have been lost while this task waited
        except BaseException:
            hold._drop_entry()
            raise
        return hold


class _UnguardedError(Exception):
    """Nobody knows whether others count as many segments."""


class AnySegment(Several[SegmentHold]):
    """Whichever segment is free first, `home` before the others; one that this task holds already is entered again.

    Who waits for it is in the queue of every segment, and counts as that many waiters of its client.
    """

    def __init__(self, whole: SegmentedLock, home: SegmentLock | None = None) -> None:
        super().__init__(whole.key, whole._locks, wait=whole._policy.wait)
        self._agreement = whole._agreement
        self._locks = whole._locks
        self._home = home

    async def _acquire(self, limit: float | None) -> SegmentHold:
        for lock in self._locks:
            if lock._is_held_here():
                return await lock._acquire(limit)
        left = await self._agreement.agree(limit)
        race = Race[SegmentLock](self._agreement._client._at_work())
        try:
            race.start(self._locks, self._home or random.choice(self._locks), left)
            await race.over
            winner = race.winner()
        finally:
            race.end()
        if winner is None:
            raise AcquireTimeoutError(self._key, waited=limit or 0.0, holder=race.holder)
        lock, own = winner
        return await lock._take(own, left)


class SegmentedLock:
    """One hot key as N locks: by user, any of them, or all. Made by `LockClient.segmented`.

    Everybody who uses a key has to count as many segments; another number is refused until nobody has used the key for
    one ttl, two where a process died.
    """

    def __init__(self, client: LockClient, key: str, policy: Policy, *, segments: int) -> None:
        self.key = key
        self.segments = check_count("segments", segments, most=_MOST_SEGMENTS)
        check_key(f"{key}:{segments}")  # as long as the longest key of a segment
        self._client = client
        self._policy = policy
        self._agreement = Agreement(client, key, policy, segments)
        self._locks = [SegmentLock(self, segment) for segment in range(segments)]

    def __repr__(self) -> str:
        return f"<SegmentedLock {self.key!r} of {self.segments}>"

    def segment_of(self, who: str | bytes | int) -> int:
        """Return the segment that *who* belongs to: the same in every process and Python version."""
        return segment_of(who, self.segments)

    def segment(self, number: int) -> SegmentLock:
        """Return the lock of one segment, counted from 0."""
        return self._locks[check_count("segment", number, least=0, most=self.segments - 1)]

    @overload
    def lock(self, who: str | bytes | int, *, steal: Literal[False] = False) -> SegmentLock: ...

    @overload
    def lock(self, who: str | bytes | int, *, steal: bool) -> SegmentLock | AnySegment: ...

    def lock(self, who: str | bytes | int, *, steal: bool = False) -> SegmentLock | AnySegment:
        """Return the lock of the segment that *who* belongs to; with *steal* another one that is free first will do."""
        home = self._locks[self.segment_of(who)]
        return AnySegment(self, home) if steal else home

    def any(self) -> AnySegment:
        """Return the lock of whichever segment is free first."""
        return AnySegment(self)

    def all(self) -> MultiLock:
        """Return the lock of the whole key: all segments at once."""
        return MultiLock(self._locks, wait=self._policy.wait)
