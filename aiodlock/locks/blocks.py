"""Blocks of lock objects whose holds are made by `acquire`: which task entered with which hold, as a stack."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from aiodlock.errors import NotHeldError

__all__ = ["Blocks", "Entered"]


class Entered(Protocol):
    """What can be entered and left."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_E = TypeVar("_E", bound=Entered)


class Blocks(Generic[_E]):
    """The blocks that tasks entered through one lock object, innermost last."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._stacks: dict[asyncio.Task[Any] | None, list[_E]] = {}

    async def enter(self, hold: _E) -> _E:
        """Enter with *hold*, which the current task has just acquired."""
        await hold.__aenter__()
        self._stacks.setdefault(asyncio.current_task(), []).append(hold)
        return hold

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the innermost block of the current task."""
        task = asyncio.current_task()
        stack = self._stacks.get(task)
        if not stack:
            raise NotHeldError(
                self._key, f"this task did not enter {self._key!r}: acquire() gives a hold to pass around"
            )
        hold = stack.pop()
        if not stack:
            del self._stacks[task]
        await hold.__aexit__(kind, error, trace)
