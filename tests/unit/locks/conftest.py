"""Synchronizers on the memory backend, in virtual time: sleeping costs nothing, and a deadlock is an error at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock.events import Event
from aiodlock.testing import Faults, LoopClock, VirtualTimeLoop
from tests.unit.core.body import Body


def pytest_asyncio_loop_factories(
    config: object, item: object
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


def connect(name: str, events: list[Event] | None = None) -> LockClient:
    """Return a client of the server that all of a test's clients share, as if it were a process of its own."""
    on_event = events.append if events is not None else None
    return aiodlock.connect("memory://shop", name=name, clock=LoopClock(), on_event=on_event)


@pytest.fixture
def events() -> list[Event]:
    """What `locks` told of."""
    return []


@pytest.fixture
async def locks(events: list[Event]) -> AsyncIterator[LockClient]:
    async with connect("web-1", events) as client:
        yield client


@pytest.fixture
async def other(locks: LockClient) -> AsyncIterator[LockClient]:
    async with connect("web-2") as client:
        yield client


@pytest.fixture
async def third(locks: LockClient) -> AsyncIterator[LockClient]:
    async with connect("web-3") as client:
        yield client


@pytest.fixture
def faults(locks: LockClient) -> Faults:
    """The network of `locks`."""
    return Faults(locks)


@pytest.fixture
async def body() -> Body:
    """What runs inside a block."""
    return Body()
