"""The face of locks that are made of other locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from aiodlock.errors import AcquireTimeoutError
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.blocks import Blocks
from aiodlock.policy import DEFAULT, Default, check_wait

__all__ = ["Several"]

_T = TypeVar("_T")
_HoldT = TypeVar("_HoldT", bound=AbstractAsyncContextManager[Any, None])


class Several(Generic[_HoldT]):
    """A lock over `members`; asked who is inside, it asks all of them."""

    def __init__(self, key: str, members: Sequence[Synchronizer[Any]], *, wait: float | None) -> None:
        self._key = key
        self._members = tuple(members)
        self._wait = wait
        self._blocks: Blocks[_HoldT] = Blocks(key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._key!r}>"

    @property
    def members(self) -> tuple[Synchronizer[Any], ...]:
        """The locks that this one is made of."""
        return self._members

    async def acquire(self, wait: float | Default | None = DEFAULT) -> _HoldT:
        """Wait at most *wait* seconds in all (None: for ever; left out: the lock's own) and return the hold.

        Cancellation: nothing is left behind; what was acquired is given back in the background.
        """
        return await self._acquire(self._wait if isinstance(wait, Default) else check_wait(wait))

    async def try_acquire(self) -> _HoldT | None:
        """Return the hold if what it needs is free now, else None.

        Cancellation: nothing is left behind.
        """
        try:
            return await self._acquire(0)
        except AcquireTimeoutError:
            return None

    async def __aenter__(self) -> _HoldT:
        hold = await self._acquire(self._wait)
        await hold.__aenter__()
        return self._blocks.push(hold)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._blocks.pop().__aexit__(kind, error, trace)

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function under the lock.

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

    async def _acquire(self, limit: float | None) -> _HoldT:
        raise NotImplementedError
