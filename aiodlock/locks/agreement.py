"""The agreement on a number of segments: a guard that every client holds while it uses any of them.

The number is the size of a line that everybody fits in, so whoever joins it hears which number is in use. A client has
one guard for a key, however many objects ask for it: the entry of no task among the owners of that line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId
from aiodlock._core.ownership import Task
from aiodlock.clock import Timer
from aiodlock.errors import ConfigurationError
from aiodlock.locks.base import Synchronizer
from aiodlock.policy import LONGEST_TTL, Policy

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.client import LockClient

__all__ = ["Agreement", "Guard", "longer_than", "segment_line"]

_USERS = 1 << 29  # processes that may use one segmented lock; what is above it in the size is the number of segments


def segment_line(key: str, segment: int) -> LineId:
    """Return the line of one segment."""
    return LineId("segment", f"{key}:{segment}")


def longer_than(ttl: float) -> float:
    """Return the life of a guard: renewed at a third of it, it outlives whatever segment was taken or renewed since."""
    return min(2 * ttl, LONGEST_TTL)


class Guard(Hold):
    """One client's part in the agreement, held by no task in particular as long as any segment is in use here.

    Without it others may count differently, so its loss is the loss of every segment that this client holds.
    """

    __slots__ = ()

    _timer: Timer | None = None

    @staticmethod
    def of(engine: Engine, key: str) -> Guard | None:
        """Return the guard that a client has of *key*; its time may be over."""
        return cast("Guard | None", engine.owners_of(LineId("segments", key)).get(None))

    @property
    def size(self) -> int:
        """The number of segments, as the size of the line."""
        return self._cohort.size

    def stands_for(self, size: int, ttl: float) -> bool:
        """Say whether it will do for whoever asks for that number and such a life, on the server that is in use."""
        fallback = self._cohort.engine.fallback
        is_here = fallback is None or not fallback.is_misplaced(self._place)
        return is_here and self.size == size and self._cohort.policy.ttl >= ttl

    def stand(self) -> None:
        """Be the guard from now on, in the stead of one with a shorter life."""
        owners = self._cohort.owners
        before, owners[None] = owners.get(None), self
        if before is not None:
            before._drop_entry()
        self._plan()

    def _plan(self) -> None:
        engine = self._cohort.engine
        self._timer = engine.clock.call_at(engine.now() + self._cohort.policy.ttl / 2, self._look)

    def _look(self) -> None:
        """Stay while it is needed, else let the number be changed."""
        if self.lost:
            return
        if any(self._guards(line) for line in self._cohort.engine.lines_in_use()):
            self._plan()
        else:
            self._drop_entry()

    def _lose(self, reason: str) -> None:
        stands = self._cohort.owners.get(None) is self
        super()._lose(reason)
        for place in list(self._cohort.engine.places.values()) if stands else ():
            if place.holds and self._guards(place.ticket.line):
                place.lose(reason)

    def _disown(self) -> None:
        super()._disown()
        if self._timer is not None:
            self._timer.cancel()

    def _guards(self, line: LineId) -> bool:
        return line.kind == "segment" and line.key.rpartition(":")[0] == self.key


class Agreement(Synchronizer[Guard]):
    """Sees to it that a client has a guard, and that it stands for the same number."""

    _reenters = False

    def __init__(self, client: LockClient, key: str, policy: Policy, segments: int) -> None:
        own = Policy(ttl=longer_than(policy.ttl), waiting=policy.waiting)
        super().__init__(client, LineId("segments", key), own, Shape(_USERS + segments, shared=True, hold=Guard))

    def is_held(self) -> bool:
        """Say whether there is a guard; one whose time is over is lost by this look, and the segments with it."""
        guard = cast("Guard | None", self._owners.get(None))
        return guard is not None and not guard.lost and guard.stands_for(self._shape.size, self._policy.ttl)

    async def agree(self, wait: float | None) -> float | None:
        """Make sure that everybody who uses the key now counts as many segments; return what is left of *wait*."""
        engine = self._client._at_work()
        self._owners = engine.owners_of(self._line)
        if self.is_held():
            return wait
        began = engine.now()
        guard = await self._acquire(wait or None)
        left = max(0.0, wait - (engine.now() - began)) if wait else wait
        if self.is_held():  # another task was faster
            await guard.release()
            return left
        for each in (guard, Guard.of(engine, self.key)):
            if each is not None and each.size != self._shape.size:
                await guard.release()
                raise self._differs(each.size)
        guard.stand()
        return left

    def _differs(self, size: int) -> ConfigurationError:
        return ConfigurationError(
            f"{self.key!r} is in use with {size - _USERS} segments, this client asks for {self._shape.size - _USERS}: "
            "use one number everywhere, and change it when nothing is held"
        )

    async def _take(self, own: Hold, limit: float | None) -> Guard:
        """Return the ownership itself: no task has a handle of it."""
        return cast("Guard", await self._prepare(own, limit))

    def _held_by(self, task: Task | None, engine: Engine) -> None:
        return None
