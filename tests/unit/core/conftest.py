"""The engine on the memory backend, in virtual time: sleeping costs nothing, and a deadlock is an error at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock.events import Event
from aiodlock.testing import FakeClock, Faults, LoopClock, VirtualTimeLoop
from tests.unit.core.body import Body


def pytest_asyncio_loop_factories(
    config: object, item: object
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


@pytest.fixture
def events() -> list[Event]:
    """What `locks` told of."""
    return []


@pytest.fixture
async def locks(events: list[Event]) -> AsyncIterator[LockClient]:
    """A client of a server that `other` is a client of too."""
    async with aiodlock.connect("memory://shop", name="web-1", clock=LoopClock(), on_event=events.append) as client:
        yield client


@pytest.fixture
async def other(locks: LockClient) -> AsyncIterator[LockClient]:
    """As if it were another process."""
    async with aiodlock.connect("memory://shop", name="web-2", clock=LoopClock()) as client:
        yield client


@pytest.fixture
def faults(locks: LockClient) -> Faults:
    """The network of `locks`."""
    return Faults(locks)


@pytest.fixture
def clock() -> FakeClock:
    """Time that stands still unless the test moves it."""
    return FakeClock()


@pytest.fixture
async def frozen(clock: FakeClock, events: list[Event]) -> AsyncIterator[LockClient]:
    """A client whose process can be frozen by `clock.jump`."""
    async with aiodlock.connect("memory://", clock=clock, on_event=events.append) as client:
        yield client


@pytest.fixture
async def body() -> Body:
    """What runs inside a block."""
    return Body()


@pytest.fixture
async def stage(
    locks: object, other: object, faults: object, frozen: object, clock: object, events: object, body: object
) -> dict[str, object]:
    """Everything that a test may ask for, by name."""
    return dict(locals())
