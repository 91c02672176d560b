"""The multi-lock: several locks as one, all or nothing, in one order whatever order was asked."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias

from aiodlock._core.cancel import finish
from aiodlock._core.hold import Hold, any_lost
from aiodlock._core.leaving import GRACE
from aiodlock._core.ownership import Task
from aiodlock.errors import AcquireTimeoutError, ConfigurationError, LockError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.semaphore import Semaphore
from aiodlock.locks.several import Several
from aiodlock.policy import check_wait

__all__ = ["MultiHold", "MultiLock"]

_Member: TypeAlias = Synchronizer[Any]


class MultiHold:
    """Several holds as one: lost when one is lost. It has no fence: each member has its own."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = tuple(holds)
        once = partial(_cancel_once, set[Task | None]())
        for hold in holds:
            if hold._on_lost == "cancel":
                hold._on_lost = once

    def __repr__(self) -> str:
        return f"<MultiHold of {self.key}>"

    # --- what it tells -----------------------------------------------------------------------------------------

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The members, in the order in which they were acquired."""
        return self._holds

    @property
    def key(self) -> str:
        """What is held, for people to read."""
        return " + ".join(hold.key for hold in self._holds)

    @property
    def owner(self) -> str:
        """The names of the clients, as others see them."""
        return " + ".join(dict.fromkeys(hold.owner for hold in self._holds))

    @property
    def acquired_at(self) -> datetime:
        """When the last one was acquired, in UTC."""
        return max(hold.acquired_at for hold in self._holds)

    @property
    def remaining(self) -> float:
        """Seconds until the first lease ends if it is not renewed again."""
        return min(hold.remaining for hold in self._holds)

    @property
    def lost(self) -> bool:
        """Whether any member is lost."""
        return any(hold.lost for hold in self._holds)

    @property
    def is_released(self) -> bool:
        """Whether all of them were given back."""
        return all(hold.is_released for hold in self._holds)

    @property
    def revoked(self) -> bool:
        """Whether somebody asked for any of them."""
        return any(hold.revoked for hold in self._holds)

    def check(self) -> None:
        """Raise `LockLostError` or `NotHeldError` if any member would. Local, no I/O."""
        for hold in self._holds:
            hold.check()

    async def wait_lost(self) -> None:
        """Wait until a member is lost.

        Cancellation: nothing is left behind; the holds are as they were.
        """
        await any_lost(self._holds)

    # --- what it does ------------------------------------------------------------------------------------------

    async def extend(self, ttl: float) -> None:
        """Have at least *ttl* seconds from now of every member.

        Cancellation: some may live longer than before.
        """
        self.check()
        for hold in self._holds:
            await hold.extend(ttl)

    async def release(self) -> None:
        """Give all of them back; an error of one does not keep the others.

        Cancellation: all are released all the same, then the cancellation goes on.
        """
        lefts, error = _give_back(self._holds)
        await _see_off(lefts)
        if error is not None:
            raise error

    def release_nowait(self) -> None:
        """Give all of them back and tell the servers in the background."""
        _, error = _give_back(self._holds)
        if error is not None:
            raise error

    @asynccontextmanager
    async def reenter(self) -> AsyncIterator[Self]:
        """Return a block for a child task, in which it holds all of them too; the last one out gives them up."""
        async with AsyncExitStack() as stack:
            for hold in self._holds:
                await stack.enter_async_context(hold.reenter())
            yield self

    async def __aenter__(self) -> Self:
        try:
            self.check()
        except LockError:
            _give_back(self._holds)
            raise
        task = asyncio.current_task()
        for hold in self._holds:
            hold._belong_to(task)
            hold._begin_block(task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outermost = [hold._block is not None for hold in self._holds]
        ends = [hold._close_block() for hold in self._holds]
        outcome = error
        try:
            await _see_off([left for left, is_lost in ends if left is not None and not is_lost])
        except asyncio.CancelledError as cancelled:
            outcome = cancelled
        for hold, was_outermost, (_, is_lost) in reversed([*zip(self._holds, outermost, ends, strict=True)]):
            try:
                if is_lost:
                    await hold._let_out(outcome, was_outermost=was_outermost)
            except BaseException as let_out:
                outcome = let_out
        if outcome is not error and outcome is not None:
            raise outcome


class MultiLock(Several[MultiHold]):
    """Several locks as one. Sorted by key, kind and server, so that no two of them can wait for each other.

    Equal locks become one, equal semaphores one heavier ticket. Made by `LockClient.multi`.
    """

    def __init__(self, members: Iterable[_Member | MultiLock], *, wait: float | None = None) -> None:
        ordered = _in_order(_flat(members))
        super().__init__(" + ".join(member.key for member in ordered), ordered, wait=check_wait(wait))

    async def _acquire(self, limit: float | None) -> MultiHold:
        self._refuse_deadlock()
        now = self._members[0]._client._at_work().now
        began = now()
        until = None if limit is None else began + limit
        while True:
            holds: list[Hold] = []
            try:
                for member in self._members:
                    left = None if until is None else max(0.0, until - now())
                    holds.append(await member._acquire(left))
            except AcquireTimeoutError as error:
                _give_back(holds)
                # A member with tries of its own may have given up before our time is over.
                waited = now() - began if limit is None else min(limit, now() - began)
                raise AcquireTimeoutError(error.key, waited=waited, holder=error.holder) from None
            except BaseException:
                _give_back(holds)
                raise
            if not any(hold.lost for hold in holds):
                return MultiHold(holds)
            _give_back(holds)  # one was lost while a later one was waited for: all are waited for again

    def _refuse_deadlock(self) -> None:
        """Raise where this task would wait for an earlier member while it holds a later one."""
        waits_for: str | None = None
        for member in self._members:
            is_held = member._is_held_here()
            if is_held and waits_for is not None:
                held = member.key
                raise LockError(held, f"this task holds {held!r} and asks for {waits_for!r}, which comes before it: "
                                      "release it, or ask for both at once")  # fmt: skip
            if not (is_held and member._reenters):
                waits_for = waits_for or member.key


def _flat(members: Iterable[_Member | MultiLock]) -> list[_Member]:
    flat: list[_Member] = []
    for member in members:
        if not isinstance(member, (MultiLock, Synchronizer)):
            raise ConfigurationError(f"{member!r} cannot be part of a multi-lock: give locks")
        flat += member.members if isinstance(member, MultiLock) else [member]
    if not flat:
        raise ConfigurationError("a multi-lock needs at least one lock")
    return flat


def _order(member: _Member) -> tuple[bytes, str, str]:
    return member._line.key.encode(), member._line.kind, member._client.backend.address


def _in_order(members: list[_Member]) -> list[_Member]:
    groups = itertools.groupby(sorted(members, key=_order), key=_order)
    return [_merged(list(group)) for _, group in groups]


def _merged(equals: list[_Member]) -> _Member:
    first = equals[0]
    for other in equals[1:]:
        if _line_of(other) != _line_of(first):
            raise ConfigurationError(
                f"{first!r} and {other!r} stand in one line and differ: a task would wait for itself"
            )
    if isinstance(first, Semaphore):
        return first._of_weight(sum(member._shape.weight for member in equals))
    return first


def _line_of(member: _Member) -> tuple[object, ...]:
    """Return in what two members of one line must not differ; a semaphore's tickets may, in weight."""
    shape = member._shape if not isinstance(member, Semaphore) else member._shape.size
    return member._client, shape, member._policy


def _cancel_once(told: set[Task | None], hold: Hold) -> None:
    """Cancel a task inside for the first member that it loses."""
    if hold._block is not None and hold._task not in told:
        told.add(hold._task)
        hold._cancel()


def _give_back(holds: Iterable[Hold]) -> tuple[list[asyncio.Future[None]], LockError | None]:
    """Release all of *holds*; return what there is to wait for on the servers, and the first error."""
    lefts, first = [], None
    for hold in holds:
        try:
            if (left := hold._give_back()) is not None:
                lefts.append(left)
        except LockError as error:
            first = first or error
    return lefts, first


async def _see_off(lefts: Sequence[asyncio.Future[None]]) -> None:
    if lefts:
        await finish(asyncio.gather(*lefts, return_exceptions=True), within=GRACE)
