"""The latch on a bad network, and how many looks its waiters cost."""

from __future__ import annotations

import asyncio

import pytest

import aiodlock
from aiodlock import BackendUnavailableError, ClientClosedError, ConfigurationError, LockClient, TooManyWaitersError
from aiodlock.testing import Faults, LoopClock, settle


async def test_a_request_that_arrives_twice_counts_once(locks: LockClient, faults: Faults) -> None:
    """Held back, sent again, and delivered after all: one operation."""
    latch = locks.latch("k", count=3)
    late = faults.hold_back("latch")
    assert await latch.count_down() == 2
    late.deliver()
    assert await latch.count() == 2
    assert await latch.count_down() == 1


async def test_any_number_of_waiters_is_one_look(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """One to begin with, one when it is called; no task or request per waiter."""
    waiters = [asyncio.create_task(locks.latch("k", count=1).opened()) for _ in range(100)]
    await settle()
    assert faults.sent == ["latch"]
    await other.latch("k", count=1).count_down()
    await asyncio.gather(*waiters)
    assert faults.sent == ["latch", "latch"]


async def test_a_lost_call_is_looked_for(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """After a third of a waiting life at most, whatever the latch's ttl."""
    waiter = asyncio.create_task(locks.latch("k", count=1, ttl=3_600).opened())
    await settle()
    faults.calls = "drop"
    await other.latch("k", count=1).count_down()
    async with asyncio.timeout(1.7):
        await waiter


async def test_a_doubled_call_does_no_harm(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """The second one finds nobody."""
    faults.calls = "double"
    waiter = asyncio.create_task(locks.latch("k", count=1).opened())
    await settle()
    await other.latch("k", count=1).count_down()
    await waiter


async def test_an_outage_is_waited_for_one_ttl(locks: LockClient, faults: Faults) -> None:
    """Then everybody who waits gets an error of their own."""
    latch = locks.latch("k", count=1, ttl=3)
    faults.go_down()
    calls = [asyncio.create_task(call()) for call in (latch.opened, latch.opened, latch.count_down, latch.count)]
    await asyncio.sleep(2.9)
    assert not any(call.done() for call in calls)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, BackendUnavailableError) for outcome in outcomes)
    assert len(set(map(id, outcomes))) == 4
    faults.come_back()
    assert await latch.count() == 1


async def test_a_step_survives_an_outage_shorter_than_its_ttl(locks: LockClient, faults: Faults) -> None:
    """It is repeated, and counts once."""
    latch = locks.latch("k", count=2, ttl=3)
    faults.go_down()
    step = asyncio.create_task(latch.count_down())
    await asyncio.sleep(2)
    faults.come_back()
    assert await step == 1
    assert await latch.count() == 1


async def test_a_cancelled_step_is_seen_through(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """It counts exactly once, although nobody waits for it any more."""
    faults.drop_request("latch", times=2)
    step = asyncio.create_task(locks.latch("k", count=2).count_down())
    await settle()
    step.cancel()
    await asyncio.wait({step})
    await asyncio.sleep(1)
    assert await other.latch("k", count=2).count() == 1


@pytest.mark.parametrize("call", ["opened", "count_down", "count"])
async def test_closing_tells_everybody(call: str) -> None:
    """Also whoever asks a server that is silent: not a cancel that nobody asked for."""
    async with aiodlock.connect("memory://", clock=LoopClock()) as client:
        Faults(client).fall_silent()
        task = asyncio.create_task(getattr(client.latch("k", count=1), call)())
        await settle()
    with pytest.raises(ClientClosedError):
        await task
    with pytest.raises(ClientClosedError):
        await getattr(client.latch("k", count=1), call)()


async def test_nothing_is_kept_of_those_who_gave_up(locks: LockClient, faults: Faults) -> None:
    """Cancelled or out of time: no watch, no waiter, no further look."""
    latch = locks.latch("k", count=1, ttl=1)
    cancelled = asyncio.create_task(latch.opened())
    with pytest.raises(TimeoutError):
        await latch.opened(0.1)
    cancelled.cancel()
    await asyncio.wait({cancelled})
    engine = locks._engine
    assert engine is not None
    assert (engine.waiting, engine.latches._watched) == (0, {})
    sent = len(faults.sent)
    await asyncio.sleep(10)
    assert len(faults.sent) == sent


async def test_waiters_of_latches_are_limited_too() -> None:
    """Beyond the client's limit the caller gets an error, and one that leaves makes room."""
    async with aiodlock.connect("memory://", clock=LoopClock(), max_waiters=1) as client:
        latch = client.latch("k", count=1)
        waiter = asyncio.create_task(latch.opened())
        await settle()
        with pytest.raises(TooManyWaitersError):
            await latch.opened()
        await latch.count_down()
        await waiter
        await latch.opened()


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3"])
async def test_counts_are_positive_integers(locks: LockClient, count: int) -> None:
    """Of the latch and of a step."""
    with pytest.raises(ConfigurationError):
        locks.latch("k", count=count)
    with pytest.raises(ConfigurationError):
        await locks.latch("k", count=1).count_down(count)
