"""Blocks of lock objects that a task may enter several times with a hold each: which task entered with which."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from aiodlock.errors import NotHeldError

__all__ = ["Blocks"]

_T = TypeVar("_T")


class Blocks(Generic[_T]):
    """The holds with which tasks entered one lock object, innermost last."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._stacks: dict[asyncio.Task[Any] | None, list[_T]] = {}

    def push(self, hold: _T) -> _T:
        """Remember that the current task entered with *hold*."""
        self._stacks.setdefault(asyncio.current_task(), []).append(hold)
        return hold

    def pop(self) -> _T:
        """Return the hold of the current task's innermost block, which it leaves."""
        task = asyncio.current_task()
        stack = self._stacks.get(task)
        if stack is None:
            raise NotHeldError(
                self._key, f"this task did not enter {self._key!r}: acquire() gives a hold to pass around"
            )
        hold = stack.pop()
        if not stack:
            del self._stacks[task]
        return hold
