"""The segmented lock: one hot key spread over N locks, and a router in front."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId
from aiodlock.errors import AcquireTimeoutError, ConfigurationError, LockLostError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.blocks import Blocks
from aiodlock.locks.multi import MultiLock
from aiodlock.policy import DEFAULT, Default, Policy, check_count, check_wait

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.client import LockClient

__all__ = ["AnySegment", "SegmentHold", "SegmentLock", "SegmentedLock", "StealingLock"]

_T = TypeVar("_T")

_MOST_SEGMENTS = 1024
_USERS = 1 << 29  # processes that may use one segmented lock; what is above it in the size is the number of segments


class SegmentHold(Hold):
    """One segment of a key."""

    __slots__ = ()

    @property
    def key(self) -> str:
        """The key that is segmented."""
        return super().key.partition(":")[2]

    @property
    def segment(self) -> int:
        """Which segment is held."""
        return int(super().key.partition(":")[0])


class SegmentLock(Synchronizer[SegmentHold]):
    """One segment of a key, as a lock."""

    def __init__(self, whole: SegmentedLock, segment: int) -> None:
        line = LineId("segment", f"{segment}:{whole.key}")
        super().__init__(whole._client, line, whole._policy, Shape(hold=SegmentHold))
        self._whole = whole
        self.segment = segment

    async def acquire(self, wait: float | Default | None = DEFAULT) -> SegmentHold:
        """Wait for this segment, at most *wait* seconds.

        Cancellation: nothing is left behind.
        """
        await self._whole._agree()
        return await super().acquire(wait)

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function under the lock of this segment and return its result.

        Cancellation: the function is not called if its turn has not come; nothing is left behind.
        """
        await self._whole._agree()
        return await super().run(function)

    async def __aenter__(self) -> SegmentHold:
        await self._whole._agree()
        return await super().__aenter__()


class AnySegment:
    """Whichever segment is free first."""

    def __init__(self, whole: SegmentedLock) -> None:
        self._whole = whole
        self._blocks: Blocks[SegmentHold] = Blocks(whole.key)

    async def acquire(self, wait: float | Default | None = DEFAULT) -> SegmentHold:
        """Wait for any segment, at most *wait* seconds.

        Cancellation: nothing is left behind; the other segments are left in the background.
        """
        limit = self._whole._policy.wait if isinstance(wait, Default) else check_wait(wait)
        hold = await self._race(limit)
        if hold is None:
            raise AcquireTimeoutError(self._whole.key, waited=limit or 0.0)
        return hold

    async def try_acquire(self) -> SegmentHold | None:
        """Return any segment that is free now, or None.

        Cancellation: nothing is left behind.
        """
        return await self._race(0)

    async def __aenter__(self) -> SegmentHold:
        return await self._blocks.enter(await self.acquire())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._blocks.leave(kind, error, trace)

    async def _race(self, wait: float | None) -> SegmentHold | None:
        """Queue for every segment at once; the first one in wins, the others leave."""
        await self._whole._agree()
        engine = self._whole._client._at_work()
        won: asyncio.Future[SegmentHold | None] = engine.loop.create_future()
        running = dict.fromkeys(self._whole._locks)

        def ended(lock: SegmentLock, outcome: object) -> None:
            running.pop(lock, None)
            if isinstance(outcome, SegmentHold):
                _give_back(outcome) if won.done() else won.set_result(outcome)
            elif not running and not won.done():
                won.set_result(None)

        racers = [engine.work.own(_enter(lock, wait), partial(ended, lock)) for lock in self._whole._locks]
        if wait:
            engine.limit(won, wait, None)
        try:
            hold = await won
        except asyncio.CancelledError:
            if won.done() and not won.cancelled() and (late := won.result()) is not None:
                _give_back(late)
            raise
        finally:
            for racer in racers:
                racer.cancel()
        if hold is not None:
            hold._belong_to(asyncio.current_task())
        return hold


class StealingLock(AnySegment):
    """A segment of one's own, or another one that is free."""

    def __init__(self, whole: SegmentedLock, home: SegmentLock) -> None:
        super().__init__(whole)
        self._home = home

    async def acquire(self, wait: float | Default | None = DEFAULT) -> SegmentHold:
        """Take the own segment if it is free, else any that is, else wait for the own one at most *wait* seconds.

        Cancellation: nothing is left behind.
        """
        return await self._home.try_acquire() or await self._race(0) or await self._home.acquire(wait)

    async def try_acquire(self) -> SegmentHold | None:
        """Return the own segment or another one, if any is free now.

        Cancellation: nothing is left behind.
        """
        return await self._home.try_acquire() or await self._race(0)


class SegmentedLock:
    """One hot key as N locks: by user, any of them, or all. Made by `LockClient.segmented`."""

    def __init__(self, client: LockClient, key: str, policy: Policy, *, segments: int) -> None:
        self.key = key
        self.segments = check_count("segments", segments, most=_MOST_SEGMENTS)
        self._client = client
        self._policy = policy
        self._locks = [SegmentLock(self, segment) for segment in range(segments)]
        guard = Policy(ttl=policy.ttl, on_lost="flag", waiting=policy.waiting)  # kept as long as any segment is used
        self._guard = _Guard(client, LineId("segments", key), guard, Shape(_USERS + segments, shared=True))

    def __repr__(self) -> str:
        return f"<SegmentedLock {self.key!r} of {self.segments}>"

    def segment_of(self, who: str | bytes | int) -> int:
        """Return the segment that *who* belongs to: the same in every process and Python version."""
        data = who if isinstance(who, bytes) else str(who).encode()
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") % self.segments

    def lock(self, who: str | bytes | int, *, steal: bool = False) -> SegmentLock | StealingLock:
        """Return the lock of the segment that *who* belongs to; with *steal* another that is free will do."""
        home = self._locks[self.segment_of(who)]
        return StealingLock(self, home) if steal else home

    def any(self) -> AnySegment:
        """Return the lock of whichever segment is free first."""
        return AnySegment(self)

    def all(self) -> MultiLock:
        """Return the lock of the whole key: all segments at once."""
        return MultiLock(self._locks, wait=self._policy.wait)

    async def _agree(self) -> None:
        """Make sure that everybody who uses the key now counts as many segments."""
        if not self._guard.is_held:
            await self._guard.hold_while_used(self)


class _Guard(Synchronizer[Hold]):
    """Tells all users of one key which number of segments is in use: as the size of a line that everybody fits in."""

    _reenters = False
    _held: Hold | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None and not self._held.lost and not self._held.is_released

    async def hold_while_used(self, whole: SegmentedLock) -> None:
        hold = await self.acquire()
        found = hold._cohort.size
        if found != self._shape.size or self.is_held:
            hold.release_nowait()
        if found != self._shape.size:
            raise ConfigurationError(
                f"{self.key!r} is in use with {found - _USERS} segments, this client asks for {whole.segments}: "
                "use one number everywhere, and change it when nothing is held"
            )
        if not self.is_held:
            hold._own._task = None  # the guard belongs to no task: it outlives the one that came first
            self._held = hold
            self._plan(whole)

    def _plan(self, whole: SegmentedLock) -> None:
        engine = self._client._at_work()
        engine.clock.call_at(engine.now() + self._policy.ttl, lambda: self._let_go_if_unused(whole))

    def _let_go_if_unused(self, whole: SegmentedLock) -> None:
        if not self.is_held or self._held is None:
            return
        if any(lock.is_in_use for lock in whole._locks):
            self._plan(whole)
        else:
            self._held.release_nowait()

    def _held_by(self, task: asyncio.Task[Any] | None, engine: Engine) -> None:
        return None


def _give_back(hold: SegmentHold) -> None:
    try:
        hold.release_nowait()
    except LockLostError:  # nothing is left of it to give back
        pass


async def _enter(lock: SegmentLock, wait: float | None) -> SegmentHold | None:
    try:
        return await lock.acquire(wait)
    except AcquireTimeoutError:
        return None
