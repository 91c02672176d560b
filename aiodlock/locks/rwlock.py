"""The read-write lock: readers of weight 1, writers as heavy as the line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, cast

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId
from aiodlock._core.place import Place
from aiodlock._core.shared import SharedCohort
from aiodlock.errors import LockError
from aiodlock.locks.base import Synchronizer
from aiodlock.policy import OnLost, Policy

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.client import LockClient

__all__ = ["ReadLock", "ReadWriteLock", "WriteHold", "WriteLock"]

_SIZE = 1 << 30
_READ = Shape(_SIZE, 1, shared=True)


class WriteHold(Hold):
    """A write lock that is held, and can become a read lock without letting anybody write in between."""

    __slots__ = ()

    _reads = False  # whether this handle only reads
    # Of an ownership:
    _writers = 1  # handles that write
    _downgraded: asyncio.Future[None] | None = None  # done when the server knows

    async def downgrade(self) -> None:
        """Keep reading, let other readers in at once. From the call on it only reads; a second time does nothing.

        It is repeated until the server has heard of it, or the lease ends.

        Cancellation: the downgrade goes on in the background.
        """
        self.check()
        told = cast("WriteHold", self._own)._read_on()
        await asyncio.wait((told,))
        self.check()
        self._cohort.engine.work.result_of(told)

    def _again(self, on_lost: OnLost) -> Self:
        hold = super()._again(on_lost)
        hold._reads = self._reads
        cast("WriteHold", self._own)._writers += not self._reads
        return hold

    def _hand_over(self, on_lost: OnLost) -> Self:
        hold = super()._hand_over(on_lost)
        self._writers -= 1
        return hold

    def _read_only(self) -> None:
        """Be a handle that only reads."""
        self._reads = True
        cast("WriteHold", self._own)._writers -= 1

    def _drop_entry(self) -> asyncio.Future[None] | None:
        own = cast("WriteHold", self._own)
        own._writers -= not self._reads
        left = super()._drop_entry()
        if own._entries and not own._writers and own._loss is None:
            return own._read_on()
        return left

    def _read_on(self) -> asyncio.Future[None]:
        """Make the place a reader's here and now, so that nobody writes in it any more; then tell the server."""
        if self._downgraded is None:
            place, engine = self._place, self._cohort.engine
            readers = cast("SharedCohort", engine.cohort(place.ticket.line, _READ, self._cohort.policy))
            readers.adopt(place)
            self._downgraded = engine.work.own(_lighten(place), lambda _: None)
        return self._downgraded


class ReadLock(Synchronizer[Hold]):
    """Shared with other readers, in this process and elsewhere; the readers of one process share a ticket."""

    def _again(self, held: Hold) -> Hold:
        hold = super()._again(held)
        if isinstance(hold, WriteHold):
            hold._read_only()
        return hold


class WriteLock(Synchronizer[WriteHold]):
    """Alone: no reader, no other writer."""

    def _held_by(self, task: asyncio.Task[Any] | None, engine: Engine) -> Hold | None:
        own = super()._held_by(task, engine)
        if own is not None and own._place.ticket.weight == 1:
            raise LockError(self.key, f"this task reads {self.key!r}: release the read lock before asking to write")
        return own


class ReadWriteLock:
    """Many readers or one writer. Nobody overtakes, so readers cannot starve a writer. Made by `LockClient.rwlock`.

    A task that writes may read too; if it then stops writing first, it goes on reading.
    """

    def __init__(self, client: LockClient, key: str, policy: Policy) -> None:
        line = LineId("rwlock", key)
        self._read = ReadLock(client, line, policy, _READ)
        self._write = WriteLock(client, line, policy, Shape(_SIZE, _SIZE, hold=WriteHold))

    def __repr__(self) -> str:
        return f"<ReadWriteLock {self._read.key!r}>"

    def read(self) -> ReadLock:
        """Return the lock that is shared with other readers."""
        return self._read

    def write(self) -> WriteLock:
        """Return the lock that excludes everybody."""
        return self._write


async def _lighten(place: Place) -> None:
    """Have the server let others read beside *place*; what it answers is what a renewal would be."""
    engine, ticket = place.engine, place.ticket
    sent_at = engine.now()
    answer = await engine.repeat(lambda: engine.backend.change_weight(ticket, ticket.weight), within=ticket.ttl)
    place.renewed(sent_at, True, answer)
