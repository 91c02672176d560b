"""What lies between a client and the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["Network"]

_T = TypeVar("_T")


class Network:
    """Delivers everything at once, in order, exactly once; `aiodlock.testing` has hostile ones."""

    def carry(self, verb: str, act: Callable[[], _T]) -> Awaitable[_T]:
        """Bring a request to the server and its answer back."""
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        answer.set_result(act())
        return answer

    def push(self, deliver: Callable[[], None]) -> None:
        """Bring a call to the client: later, as over a wire, never inside the verb that caused it."""
        asyncio.get_running_loop().call_soon(deliver)
