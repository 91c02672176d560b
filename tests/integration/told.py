"""A backend under test, and the calls it got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiodlock._core.line import Call, Reconnected

__all__ = ["Told", "kept_open"]

_C = TypeVar("_C", bound="Told")


class Told:
    """Remembers what its backend was told."""

    backend: Any

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.reconnected = asyncio.Event()

    def on_call(self, call: Call) -> None:
        self.calls.append(call)
        if isinstance(call, Reconnected):
            self.reconnected.set()


@asynccontextmanager
async def kept_open(client: _C) -> AsyncIterator[_C]:
    """Keep the client's backend open for a while."""
    await client.backend.open(client.on_call)
    try:
        yield client
    finally:
        await client.backend.aclose()
