"""The multi-lock: several locks as one, all or nothing, in one order whatever order was asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from aiodlock._core.hold import Hold
from aiodlock.errors import AcquireTimeoutError, ConfigurationError, LockError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.blocks import Blocks
from aiodlock.locks.semaphore import Semaphore
from aiodlock.policy import DEFAULT, Default, check_wait

__all__ = ["MultiHold", "MultiLock"]

_T = TypeVar("_T")
_Member: TypeAlias = Synchronizer[Any]


class MultiHold:
    """Several holds as one: lost when one is lost. It has no fence: each member has its own."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = tuple(holds)

    def __repr__(self) -> str:
        return f"<MultiHold of {', '.join(hold.key for hold in self._holds)}>"

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The members, in the order in which they were acquired."""
        return self._holds

    @property
    def lost(self) -> bool:
        """Whether any member is lost."""
        return any(hold.lost for hold in self._holds)

    @property
    def revoked(self) -> bool:
        """Whether somebody asked for any of them."""
        return any(hold.revoked for hold in self._holds)

    @property
    def remaining(self) -> float:
        """Seconds until the first lease ends if it is not renewed again."""
        return min(hold.remaining for hold in self._holds)

    def check(self) -> None:
        """Raise `LockLostError` or `NotHeldError` if any member would. Local, no I/O."""
        for hold in self._holds:
            hold.check()

    async def release(self) -> None:
        """Give all of them back; an error of one does not keep the others.

        Cancellation: all are released all the same, then the cancellation goes on.
        """
        await self.__aexit__(None, None, None)

    def release_nowait(self) -> None:
        """Give all of them back and tell the servers in the background."""
        _give_back(self._holds)

    async def __aenter__(self) -> Self:
        entered: list[Hold] = []
        try:
            for hold in self._holds:
                await hold.__aenter__()
                entered.append(hold)
        except BaseException as error:
            await _leave(entered, error)
            _give_back(self._holds[len(entered) :])
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = await _leave(self._holds, error)
        if outcome is not error and outcome is not None:
            raise outcome


class MultiLock:
    """Several locks as one. Sorted by key, kind and server, so that no two of them can wait for each other.

    Equal locks become one, equal semaphores one heavier ticket. Made by `LockClient.multi`.
    """

    def __init__(self, members: Iterable[_Member | MultiLock], *, wait: float | None = None) -> None:
        self._members = _in_order(_flat(members))
        self._wait = check_wait(wait)
        self._key = " + ".join(member.key for member in self._members)
        self._blocks: Blocks[MultiHold] = Blocks(self._key)

    def __repr__(self) -> str:
        return f"<MultiLock of {self._key}>"

    @property
    def members(self) -> tuple[_Member, ...]:
        """What is locked, in the order in which it is acquired."""
        return self._members

    async def acquire(self, wait: float | Default | None = DEFAULT) -> MultiHold:
        """Wait for all of them, at most *wait* seconds in all, and return them as one hold.

        Cancellation: nothing is left behind; members that were acquired are given back in the background.
        """
        self._refuse_deadlock()
        limit = self._wait if isinstance(wait, Default) else check_wait(wait)
        now = self._members[0]._client._at_work().now
        until = None if limit is None else now() + limit
        holds: list[Hold] = []
        try:
            for member in self._members:
                left = None if until is None else max(0.0, until - now())
                holds.append(await _acquire(member, left))
        except BaseException:
            _give_back(holds)
            raise
        return MultiHold(holds)

    async def try_acquire(self) -> MultiHold | None:
        """Return all of them if all are free now, else None.

        Cancellation: nothing is left behind.
        """
        try:
            return await self.acquire(0)
        except AcquireTimeoutError:
            return None

    async def __aenter__(self) -> MultiHold:
        return await self._blocks.enter(await self.acquire())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._blocks.leave(kind, error, trace)

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function while all are held.

        Cancellation: the function is not called if its turn has not come; nothing is left behind.
        """
        async with self:
            return function()

    async def locked(self) -> bool:
        """Ask whether anybody is inside any of them.

        Cancellation: nothing is left behind.
        """
        return any([await member.locked() for member in self._members])

    async def holder(self) -> str | None:
        """Ask for the name of somebody inside one of them.

        Cancellation: nothing is left behind.
        """
        holders = [await member.holder() for member in self._members]
        return next(filter(None, holders), None)

    async def force_release(self) -> int:
        """Make those leave who are inside any of them now; return how many.

        Cancellation: each ticket has left or is still inside.
        """
        return sum([await member.force_release() for member in self._members])

    async def revoke(self, reason: str) -> int:
        """Ask those who are inside any of them to let go; return how many were asked.

        Cancellation: some may have been asked.
        """
        return sum([await member.revoke(reason) for member in self._members])

    def _refuse_deadlock(self) -> None:
        """Raise where this task would wait for an earlier member while it holds a later one."""
        waits_for: str | None = None
        for member in self._members:
            if not member._is_held_here():
                waits_for = waits_for or member.key
            elif waits_for is not None:
                held = member.key
                raise LockError(held, f"this task holds {held!r} and asks for {waits_for!r}, which comes before it: "
                                      "release it, or ask for both at once")  # fmt: skip


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


def _in_order(members: list[_Member]) -> tuple[_Member, ...]:
    groups = itertools.groupby(sorted(members, key=_order), key=_order)
    return tuple(_merged(list(group)) for _, group in groups)


def _merged(equals: list[_Member]) -> _Member:
    first = equals[0]
    if isinstance(first, Semaphore) and len(equals) > 1:
        weight = sum(member._shape.weight for member in equals)
        alike = [member for member in equals if member._client is first._client and member._policy == first._policy]
        if len(alike) == len(equals):
            return first._of_weight(weight)
    for other in equals[1:]:
        if (other._client, other._shape, other._policy) != (first._client, first._shape, first._policy):
            raise ConfigurationError(
                f"{first!r} and {other!r} stand in one line and differ: a task would wait for itself"
            )
    return first


async def _acquire(member: _Member, wait: float | None) -> Hold:
    if isinstance(member, Semaphore):  # its own acquire asks for a count: this one is as heavy as it is
        return await Synchronizer.acquire(member, wait)
    hold: Hold = await member.acquire(wait)
    return hold


async def _leave(holds: Iterable[Hold], error: BaseException | None) -> BaseException | None:
    """Leave the blocks of all *holds*, innermost first; return what comes out of the outermost."""
    for hold in reversed(tuple(holds)):
        try:
            await (hold.__aexit__(type(error) if error else None, error, None) if hold._task else hold.release())
        except BaseException as outcome:
            error = outcome
    return error


def _give_back(holds: Iterable[Hold]) -> None:
    for hold in holds:
        try:
            hold.release_nowait()
        except LockError:  # lost or released meanwhile: nothing is left of it to give back
            continue
