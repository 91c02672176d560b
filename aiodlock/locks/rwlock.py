"""The read-write lock: readers of weight 1, writers as heavy as the line."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.line import Inside, LineId
from aiodlock._core.place import INSIDE
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
    _writers = 1  # handles of the ownership that write

    async def downgrade(self) -> None:
        """Keep reading, let other readers in at once. A second time does nothing.

        Cancellation: the server does it or not; the hold goes on either way, and the call can be repeated.
        """
        self.check()
        await _downgrade(self._own)
        self.check()

    def _again(self, on_lost: OnLost) -> Self:
        hold = super()._again(on_lost)
        cast("WriteHold", self._own)._writers += 1
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
        if not self._reads:
            own._writers -= 1
        left = super()._drop_entry()
        if own._entries and not own._writers and own._loss is None:
            return own._cohort.engine.work.own(_downgrade(own), lambda _: None)
        return left


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


async def _downgrade(own: Hold) -> None:
    """Make the ticket lighter on the server, then let local readers share its place."""
    place, engine = own._place, own._cohort.engine
    if place.ticket.weight == 1 or place.state is not INSIDE:
        return
    answer = await engine.ask(engine.backend.change_weight(place.ticket, 1))
    if not isinstance(answer, Inside):
        place.lose("the server forgot it")
    elif place.state is INSIDE and place.ticket.weight > 1:
        place.ticket = replace(place.ticket, weight=1)
        cast("SharedCohort", engine.cohort(place.ticket.line, _READ, own._cohort.policy)).adopt(place)
