"""The semaphore: a line of N permits, tickets as heavy as the permits asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, cast

from aiodlock._core.cohort import Shape
from aiodlock._core.fence import split
from aiodlock._core.hold import Hold
from aiodlock._core.leaving import see_off
from aiodlock._core.line import LineId, Row
from aiodlock._core.ownership import RELEASED, Task, current_task
from aiodlock.errors import AcquireTimeoutError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.blocks import Blocks
from aiodlock.policy import DEFAULT, Default, Policy, check_count, check_wait

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from aiodlock.client import LockClient

__all__ = ["Permit", "Semaphore"]


class Permit(Hold):
    """Some permits of a semaphore, with an id of their own."""

    __slots__ = ()

    @property
    def permit(self) -> str:
        """The id of this permit: its ticket, and which of the ticket's ownerships it is."""
        return f"{self._place.ticket.id}.{split(self._fence)[1]}"

    @property
    def permits(self) -> int:
        """How many permits these are."""
        return self._place.ticket.weight


class Semaphore(Synchronizer[Permit]):
    """At most `permits` at a time, across tasks, processes and machines. It never re-enters.

    The number is set by whoever comes first to an empty line, and by `resize`. Made by `LockClient.semaphore`.
    """

    _reenters = False

    def __init__(self, client: LockClient, key: str, policy: Policy, *, permits: int, weight: int = 1) -> None:
        shape = Shape(check_count("permits", permits), check_count("count", weight), hold=Permit)
        super().__init__(client, LineId("semaphore", key), policy, shape)
        self._blocks: Blocks[Permit] = Blocks(key)

    async def acquire(self, count: int = 1, *, wait: float | Default | None = DEFAULT) -> Permit:  # type: ignore[override]
        """Wait for *count* permits at once, at most *wait* seconds (None: for ever; left out: the semaphore's own).

        Cancellation: nothing is left behind.
        """
        limit = self._wait if isinstance(wait, Default) else check_wait(wait)
        return await self._of_weight(count)._acquire(limit)

    async def try_acquire(self, count: int = 1) -> Permit | None:
        """Return *count* permits if they are free now, else None.

        Cancellation: nothing is left behind.
        """
        try:
            return await self._of_weight(count)._acquire(0)
        except AcquireTimeoutError:
            return None

    async def resize(self, permits: int) -> None:
        """Give the semaphore another size while it is in use; who is inside stays, who no longer fits is refused.

        Nobody there: whoever comes next sets the size. Tasks that wait behind others of their own client hear of it
        with that client's next renewal, within a third of its ttl.

        Cancellation: it has the old size or the new one.
        """
        engine = self._client._at_work()
        await engine.ask(engine.backend.change_size(self._line, check_count("permits", permits)))
        if places := [place for place in engine.places_of(self._line) if place.answered]:
            engine.renew(places)  # our own hear of it now

    async def participants(self) -> Sequence[Row]:
        """Return everybody who is inside or waits, oldest first.

        Cancellation: nothing is left behind.
        """
        return await self._rows()

    async def __aenter__(self) -> Permit:
        own = await self._prepare(await self._obtain(self._enlist(), self._wait), self._wait)
        own._on_lost = self._on_lost
        own._begin_block(asyncio.current_task())
        return self._blocks.push(cast("Permit", own))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        own = self._blocks.pop()
        cohort = own._cohort
        if not own._simple or (now := cohort.engine.now()) >= own._place.deadline:
            await own._end_block(error)
            return
        own._state = RELEASED
        if (left := cohort.give_back(own, now)) is not None:
            await see_off(own._place, left)

    def _held_by(self, task: Task | None, engine: Engine) -> None:
        return None

    def _is_held_here(self) -> bool:
        engine = self._client._at_work()
        task = current_task(engine.loop)
        return any(own._task is task for place in engine.places_of(self._line) for own in place.holds)

    def _of_weight(self, count: int) -> Semaphore:
        if check_count("count", count) == self._shape.weight:
            return self
        return Semaphore(self._client, self.key, self._policy, permits=self._shape.size, weight=count)
