"""A backend under test, and the calls it got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from aiodlock._core.line import Call, Reconnected
from aiodlock.backends.redis.wire import Link

__all__ = ["Told", "kept_open", "meet_when_closing", "shorten_patience"]

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


def meet_when_closing(monkeypatch: pytest.MonkeyPatch, links: int) -> None:
    """Let none of so many links be closed before all of them are being closed."""
    aclose, all_there = Link.aclose, asyncio.Barrier(links)

    async def close(self: Link, reason: str) -> None:
        async with asyncio.timeout(10):
            await all_there.wait()
        await aclose(self, reason)

    monkeypatch.setattr(Link, "aclose", close)


def shorten_patience(link: Link | None, patience: float) -> None:
    """Have an open link be given up sooner; making it took what a busy machine needs."""
    assert link is not None
    link._interval = patience / 3
    link._timer.cancel()
    link._check()
