"""The client's clock."""

from __future__ import annotations

import asyncio
import time

import pytest

from aiodlock.clock import SystemClock


def test_it_counts_from_boot_where_it_can() -> None:
    """Suspended time counts: a lease does not outlive a closed laptop."""
    clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before, now, after = time.clock_gettime(clock_id), SystemClock().now(), time.clock_gettime(clock_id)
    assert before <= now <= after


async def test_it_calls_not_before_the_instant() -> None:
    """But then."""
    clock, called = SystemClock(), asyncio.get_running_loop().create_future()
    when = clock.now() + 0.01
    clock.call_at(when, lambda: called.set_result(clock.now()))
    assert when <= await called


async def test_an_instant_that_has_passed_is_now() -> None:
    """The callback comes in the next step, never from inside call_at."""
    clock, called = SystemClock(), asyncio.Event()
    clock.call_at(clock.now() - 100, called.set)
    assert not called.is_set()
    await called.wait()


async def test_a_cancelled_timer_does_not_call() -> None:
    """The timer is what call_at returned."""
    clock, called = SystemClock(), asyncio.Event()
    clock.call_at(clock.now(), lambda: pytest.fail("cancelled")).cancel()
    clock.call_at(clock.now() + 0.001, called.set)
    await called.wait()
