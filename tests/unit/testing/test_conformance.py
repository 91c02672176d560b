"""The tools of the conformance suite: a check fails when it should, and leaves nothing when it does."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from aiodlock import Hold
from aiodlock._core.line import LineId, Ticket, TicketId
from aiodlock.testing.conformance import Check, MemoryWorld, World, run
from aiodlock.testing.conformance.check import check, raises


def test_a_check_is_run_in_its_world_and_in_its_time() -> None:
    """An hour of virtual time is no time."""
    seen: list[float] = []

    async def prove(world: World) -> None:
        began = world.now
        await world.sleep(100)
        seen.append(world.now - began)

    run(Check(prove), MemoryWorld())
    assert seen == [pytest.approx(100)]


def test_what_a_check_raises_is_raised() -> None:
    """As it is; its clients are closed all the same."""

    async def prove(world: World) -> None:
        client = await world.client()
        holds.append(await client.lock(world.key()).acquire())
        raise ZeroDivisionError

    holds: list[Hold] = []

    world = MemoryWorld()
    with pytest.raises(ZeroDivisionError):
        run(Check(prove), world)
    assert world.left == []
    assert holds[0].lost


def test_a_ticket_that_is_left_fails_the_check() -> None:
    """Whoever put it there."""

    async def prove(world: World) -> None:
        backend, _ = await world.backend()
        await backend.join(Ticket.of(LineId("lock", world.key()), TicketId("left")))

    with pytest.raises(AssertionError, match="left on the server"):
        run(Check(prove), MemoryWorld())


def test_a_task_that_is_left_fails_the_check() -> None:
    """One that the world does not own."""

    async def prove(world: World) -> None:
        kept.append(asyncio.create_task(asyncio.sleep(1_000)))

    kept: list[object] = []
    with pytest.raises(AssertionError, match="tasks left behind"):
        run(Check(prove), MemoryWorld())


def test_a_check_that_hangs_fails_when_patience_is_over() -> None:
    """And so does a condition that never comes true, with its time."""

    async def hang(world: World) -> None:
        await asyncio.get_running_loop().create_future()

    async def hope(world: World) -> None:
        await world.until(lambda: False, within=3)

    with pytest.raises(TimeoutError):
        run(Check(hang), MemoryWorld())
    with pytest.raises(AssertionError, match="not so within 3s"):
        run(Check(hope), MemoryWorld())


def test_a_dead_client_is_waited_for() -> None:
    """Its tickets end by their lives: nobody could leave for it."""

    async def prove(world: World) -> None:
        client = await world.client()
        hold = await client.lock(world.key(), ttl=world.ttl).acquire()
        await world.crash(client)
        await hold.wait_lost()

    run(Check(prove), MemoryWorld())


def test_raises_wants_an_error_of_that_kind() -> None:
    """None, or another one, is a failure."""
    with raises(ValueError) as raised:
        raise ValueError("mine")
    assert str(raised.error) == "mine"
    with pytest.raises(AssertionError, match="ValueError was not raised"), raises(ValueError):
        pass
    with pytest.raises(KeyError), raises(ValueError):
        raise KeyError


def test_a_check_knows_its_name_and_numbers() -> None:
    """They are what the report and the table show."""

    @check(7, 8, needs="faults")
    async def something_is_so(world: World) -> None:
        """It is."""

    assert (repr(something_is_so), something_is_so.acceptance, something_is_so.needs) == (
        ("something_is_so", (7, 8), "faults")
    )


def test_the_suite_needs_no_test_runner(environment: dict[str, str]) -> None:
    """Others may run it with theirs."""
    program = "import sys, aiodlock.testing.conformance; print({'pytest', 'redis', 'hiredis'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment)
    assert done.stdout == b"set()\n"
