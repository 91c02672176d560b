"""The memory server beyond its verbs, which the conformance suite covers: bounds, and what it forgets when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import aiodlock
from aiodlock import TooManyWaitersError
from aiodlock._core.line import Gone, GoneWhy, Inside, LineId, Ticket, TicketId, Waiting
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def backend(clock: FakeClock) -> AsyncIterator[MemoryBackend]:
    backend = MemoryBackend(server=MemoryServer(clock=clock))
    await backend.open(lambda call: None)
    yield backend
    await backend.aclose()


def ticket(name: object, *, key: str = "k", ttl: float = 30.0, size: int = 1) -> Ticket:
    return Ticket.of(LineId("lock", key), TicketId(str(name)), size=size, ttl=ttl, owner=f"owner-{name}")


async def test_a_full_line_takes_nobody(backend: MemoryBackend) -> None:
    """Who stands already may look; who is new hears who holds."""
    backend.capabilities = replace(backend.capabilities, most_tickets=2)
    await backend.join(ticket(1))
    await backend.join(ticket(2))
    assert await backend.join(ticket(3)) == Gone(GoneWhy.FULL, "owner-1")
    assert isinstance(await backend.join(ticket(2)), Waiting)


async def test_a_full_line_is_told_to_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the error for too many, which says what to do."""
    few = replace(MemoryBackend.capabilities, most_tickets=1)
    monkeypatch.setattr(MemoryBackend, "capabilities", few)
    async with aiodlock.connect("memory://full") as locks, aiodlock.connect("memory://full") as other, locks.lock("k"):
        with pytest.raises(TooManyWaitersError, match="the line of 'k' is full: try later"):
            await other.lock("k").acquire()


async def test_one_verb_sweeps_a_bounded_number(backend: MemoryBackend, clock: FakeClock) -> None:
    """A line full of the dead is cleared in steps, and who looks gets in after a few of them."""
    for n in range(250):
        await backend.join(ticket(n, ttl=1.0, size=250))
    (waiter,) = [ticket("waiter", size=250).wishing(weight=250)]
    await backend.join(waiter)
    clock.jump(2.0)
    looks = 1
    while not isinstance(await backend.join(waiter), Inside):
        looks += 1
    assert looks == 3


async def test_what_is_over_is_forgotten(backend: MemoryBackend, clock: FakeClock) -> None:
    """A key once used does not stay: its line goes a minute after its last ticket, in the course of others' joins."""
    server = backend.server
    for n in range(1_000):
        await backend.join(ticket(n, key=f"k{n}"))
        await backend.leave(ticket(n, key=f"k{n}"))
    clock.jump(61.0)
    for n in range(2_000):
        await backend.join(ticket(n, key=f"new{n}"))
        await backend.leave(ticket(n, key=f"new{n}"))
    assert not any(line.key.startswith("k") for line in server._lines)


async def test_an_epoch_outlives_its_line_by_a_minute(backend: MemoryBackend, clock: FakeClock) -> None:
    """A clock that stood still meanwhile does not give the same epoch twice."""
    first = await backend.join(ticket(1))
    await backend.leave(ticket(1))
    second = await backend.join(ticket(2))
    assert isinstance(first, Inside)
    assert isinstance(second, Inside)
    assert second.epoch == first.epoch + 1


async def test_a_tombstone_ends(backend: MemoryBackend, clock: FakeClock) -> None:
    """After four leases, and at least a minute; until then the id never stands."""
    buried, long = ticket(1, ttl=1.0), ticket(2, ttl=100.0)
    await backend.leave(buried, bury=True)
    await backend.leave(long, bury=True)
    clock.jump(59.0)
    assert isinstance(await backend.join(buried), Gone)
    clock.jump(2.0)
    assert isinstance(await backend.join(buried), Inside)
    await backend.leave(buried)
    clock.jump(338.0)
    assert isinstance(await backend.join(long), Gone)
    clock.jump(2.0)
    assert isinstance(await backend.join(long), Inside)
