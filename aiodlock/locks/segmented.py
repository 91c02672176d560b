"""The segmented lock: one hot key spread over N locks, and a router in front."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId
from aiodlock._core.ownership import Task
from aiodlock._core.routing import segment_of
from aiodlock.clock import Timer
from aiodlock.errors import AcquireTimeoutError, ConfigurationError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.multi import MultiLock
from aiodlock.locks.race import Race
from aiodlock.locks.several import Several
from aiodlock.policy import Policy, check_count, check_key

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.client import LockClient

__all__ = ["AnySegment", "SegmentHold", "SegmentLock", "SegmentedLock"]

_T = TypeVar("_T")

_MOST_SEGMENTS = 1024
_USERS = 1 << 29  # processes that may use one segmented lock; what is above it in the size is the number of segments


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


class SegmentLock(Synchronizer[SegmentHold]):
    """One segment of a key, as a lock."""

    def __init__(self, whole: SegmentedLock, segment: int) -> None:
        line = LineId("segment", f"{whole.key}:{segment}")
        super().__init__(whole._client, line, whole._policy, Shape(hold=SegmentHold))
        self._agreement = whole._agreement
        self.segment = segment

    async def __aenter__(self) -> SegmentHold:
        if self._agreement.is_held:
            return await super().__aenter__()
        hold = await self._acquire(self._wait)
        return await hold.__aenter__()

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function under the lock of this segment, as `Synchronizer.run` does.

        Cancellation: the function is not called if its turn has not come; nothing is left behind.
        """
        if self._agreement.is_held:
            return await super().run(function)
        async with self:
            return function()

    async def _acquire(self, limit: float | None) -> SegmentHold:
        return await super()._acquire(await self._agreement.agree(limit))


class AnySegment(Several[SegmentHold]):
    """Whichever segment is free first, `home` before the others; one that this task holds already is entered again."""

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
    one ttl.
    """

    def __init__(self, client: LockClient, key: str, policy: Policy, *, segments: int) -> None:
        self.key = key
        self.segments = check_count("segments", segments, most=_MOST_SEGMENTS)
        check_key(f"{key}:{segments}")  # as long as the longest key of a segment
        self._client = client
        self._policy = policy
        self._agreement = _Agreement(client, key, policy, segments)
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


class _Agreement(Synchronizer[Hold]):
    """Tells all users of one key which number of segments is in use: as the size of a line that everybody fits in.

    It is held, by no task in particular, as long as this client uses any segment.
    """

    _reenters = False
    _held: Hold | None = None
    _timer: Timer | None = None

    def __init__(self, client: LockClient, key: str, policy: Policy, segments: int) -> None:
        own = Policy(ttl=policy.ttl, waiting=policy.waiting, on_lost=self._hear_loss)
        super().__init__(client, LineId("segments", key), own, Shape(_USERS + segments, shared=True))
        self._lines = {LineId("segment", f"{key}:{segment}") for segment in range(segments)}

    @property
    def is_held(self) -> bool:
        return self._held is not None and not self._held.lost and not self._held.is_released

    async def agree(self, wait: float | None) -> float | None:
        """Make sure that everybody who uses the key now counts as many segments; return what is left of *wait*."""
        if self.is_held:
            return wait
        engine = self._client._at_work()
        began = engine.now()
        hold = await self._acquire(wait or None)
        found = hold._cohort.size
        if self.is_held or found != self._shape.size:
            await hold.release()
        else:
            hold._own._task = None  # it outlives the task that came first
            self._held = hold
            self._plan(engine)
        if found != self._shape.size:
            raise ConfigurationError(
                f"{self.key!r} is in use with {found - _USERS} segments, this client asks for {len(self._lines)}: "
                "use one number everywhere, and change it when nothing is held"
            )
        return max(0.0, wait - (engine.now() - began)) if wait else wait

    def _plan(self, engine: Engine) -> None:
        if self._timer is None:
            self._timer = engine.clock.call_at(engine.now() + self._policy.ttl, lambda: self._look(engine))

    def _look(self, engine: Engine) -> None:
        self._timer = None
        if self._held is None or not self.is_held:
            return
        if self._is_needed(engine):
            self._plan(engine)
        else:
            self._held.release_nowait()

    def _hear_loss(self, hold: Hold) -> None:
        engine = hold._cohort.engine
        if not engine.is_open and self._timer is not None:
            self._timer.cancel()
        elif engine.is_open and self._is_needed(engine):
            engine.work.own(self.agree(None), lambda _: None)

    def _is_needed(self, engine: Engine) -> bool:
        return not self._lines.isdisjoint(engine.lines_in_use())

    def _held_by(self, task: Task | None, engine: Engine) -> None:
        return None
