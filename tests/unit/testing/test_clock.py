"""Clocks for tests: one that moves when told, and a loop whose time passes by itself."""

from __future__ import annotations

import asyncio
import time

import pytest

import aiodlock
from aiodlock.testing import FakeClock, LoopClock, run_virtual, settle


async def test_a_fake_clock_stands_still() -> None:
    """Until it is told to move."""
    clock = FakeClock(start=5.0)
    await settle()
    assert clock.now() == 5.0
    await clock.advance(2.5)
    assert clock.now() == 7.5


async def test_advancing_stops_at_every_timer() -> None:
    """In order, at its own instant, with everything it causes done before the next."""
    clock, seen = FakeClock(start=0.0), []

    def note(name: str) -> None:
        seen.append((name, clock.now()))
        if name == "first":
            clock.call_at(2.0, lambda: note("caused"))
            asyncio.get_running_loop().call_soon(seen.append, "soon")

    clock.call_at(3.0, lambda: note("last"))
    clock.call_at(1.0, lambda: note("first"))
    clock.call_at(9.0, lambda: note("not yet"))
    await clock.advance(5.0)
    assert seen == [("first", 1.0), "soon", ("caused", 2.0), ("last", 3.0)]
    assert clock.timers == 1


async def test_a_cancelled_timer_is_not_called_and_not_counted() -> None:
    """As if it had never been."""
    clock = FakeClock()
    clock.call_at(clock.now() + 1, lambda: pytest.fail("cancelled")).cancel()
    assert clock.timers == 0
    await clock.advance(2)


async def test_jumping_calls_nobody() -> None:
    """A frozen process: the timers are overdue when it thaws, and see the late time."""
    clock, seen = FakeClock(start=0.0), []
    clock.call_at(1.0, lambda: seen.append(clock.now()))
    clock.jump(60)
    await settle()
    assert seen == []
    await clock.advance(0)
    assert seen == [60.0]


def test_virtual_time_costs_no_time() -> None:
    """A day of sleeping, and a lease that is renewed all the while."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with aiodlock.connect("memory://", clock=LoopClock()) as locks, locks.lock("k") as hold:
            await asyncio.sleep(3_600)
            hold.check()
        return loop.time() - began

    began = time.monotonic()
    assert run_virtual(main()) == pytest.approx(3_600)
    assert time.monotonic() - began < 30


def test_virtual_timers_keep_their_order() -> None:
    """Two sleepers wake in the order of their times."""

    async def main() -> list[int]:
        async def sleep(seconds: int) -> None:
            await asyncio.sleep(seconds)
            woken.append(seconds)

        woken: list[int] = []
        await asyncio.gather(sleep(30), sleep(10), sleep(20))
        return woken

    assert run_virtual(main()) == [10, 20, 30]


def test_virtual_time_finds_a_deadlock_at_once() -> None:
    """Everybody waits and no timer is set: an error instead of a hanging test."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        run_virtual(main())
