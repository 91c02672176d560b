"""Faults of a memory client's network, as users' tests call for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import aiodlock
from aiodlock import BackendUnavailableError, ConfigurationError, LockClient, LockLostError
from aiodlock._core.line import Called, LineId, Reconnected, Ticket, TicketId
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import Faults, LoopClock, VirtualTimeLoop, settle

LOOP = VirtualTimeLoop


class Wire:
    """A backend without an engine, its faults, and the calls it got."""

    def __init__(self) -> None:
        self.backend = MemoryBackend(server=MemoryServer(clock=LoopClock()))
        self.faults = Faults(LockClient(self.backend))
        self.calls: list[object] = []

    def ticket(self, name: str) -> Ticket:
        return Ticket.of(LineId("lock", "k"), TicketId(name))

    async def inside(self) -> list[str]:
        return [row.id for row in self.backend.server.inspect("*", "*") if row.inside]


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    await wire.backend.open(wire.calls.append)
    yield wire
    await wire.backend.aclose()


async def test_a_lost_reply_is_a_done_request(wire: Wire) -> None:
    """So many of them, of that verb only, and the connection with each."""
    wire.faults.drop_reply("join", times=1)
    await wire.backend.ping()
    with pytest.raises(BackendUnavailableError, match="no answer to join"):
        await wire.backend.join(wire.ticket("a"))
    assert await wire.inside() == ["a"]
    await wire.backend.join(wire.ticket("a"))
    await settle()
    assert wire.calls == [Reconnected(via=1)]


async def test_a_lost_request_is_not_done(wire: Wire) -> None:
    """It never arrived."""
    wire.faults.drop_request("join")
    with pytest.raises(BackendUnavailableError):
        await wire.backend.join(wire.ticket("a"))
    assert await wire.inside() == []


async def test_a_request_held_back_arrives_when_told(wire: Wire) -> None:
    """Long after its connection was lost; only one, and only if there is one."""
    late = wire.faults.hold_back("join")
    with pytest.raises(ConfigurationError, match="no request is held back"):
        late.deliver()
    with pytest.raises(BackendUnavailableError):
        await wire.backend.join(wire.ticket("a"))
    assert late.is_caught
    assert await wire.inside() == []
    late.deliver()
    assert await wire.inside() == ["a"]
    assert not late.is_caught


async def test_a_server_that_is_down_refuses_and_a_silent_one_swallows(wire: Wire) -> None:
    """When it comes back, what was swallowed fails with its connection."""
    wire.faults.go_down()
    with pytest.raises(BackendUnavailableError):
        await wire.backend.ping()
    wire.faults.come_back()
    await wire.backend.ping()
    wire.faults.fall_silent()
    ping = asyncio.ensure_future(wire.backend.ping())
    await asyncio.sleep(100)
    assert not ping.done()
    wire.faults.come_back()
    with pytest.raises(BackendUnavailableError):
        await ping
    assert wire.faults.sent == ["ping", "ping", "ping"]


@pytest.mark.parametrize(("how", "times"), [("deliver", 1), ("drop", 0), ("double", 2), ("hold", 0)])
async def test_calls_come_as_they_are_told(wire: Wire, how: str, times: int) -> None:
    """Once, never, twice, or later."""
    wire.faults.calls = how
    await wire.backend.join(wire.ticket("a"))
    await wire.backend.join(wire.ticket("b"))
    wire.calls.clear()
    await wire.backend.leave(wire.ticket("a"))
    await settle()
    assert sum(isinstance(call, Called) for call in wire.calls) == times
    wire.faults.release_calls()
    await settle()
    assert sum(isinstance(call, Called) for call in wire.calls) == (1 if how == "hold" else times)


async def test_a_hold_can_be_lost_on_demand() -> None:
    """What users' tests of their own clean-up need most."""
    async with aiodlock.connect("memory://", clock=LoopClock()) as locks:
        with pytest.raises(LockLostError, match="somebody else gave it up"):
            async with locks.lock("k") as hold:
                Faults(locks).lose(hold)
                await asyncio.sleep(1)


async def test_a_real_network_is_refused() -> None:
    """With the name of what to use there."""

    class Real:
        address = "real://"

    with pytest.raises(ConfigurationError, match="FaultProxy"):
        Faults(LockClient(Real()))
