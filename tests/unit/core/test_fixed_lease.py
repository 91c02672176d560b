"""A lease that is not renewed is looked after to its end."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import LockClient, LockLostError
from aiodlock._core.place import Place
from aiodlock.testing import Faults


@pytest.mark.parametrize("ttl", [0.5, 1.0, 3.0, 7.0, 30.0, 31.7])
async def test_the_end_of_a_fixed_lease_ends_its_block(locks: LockClient, ttl: float) -> None:
    """Nobody else asks for the lock, nothing is renewed: it is noticed all the same, when the lease is over."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(LockLostError):
        async with locks.lock("k", ttl=ttl, renew=False):
            await asyncio.sleep(10 * ttl)
    assert 0.9 * ttl < loop.time() - began <= ttl


@pytest.mark.parametrize("ttl", [1.0, 30.0])
async def test_whoever_waits_for_the_loss_of_a_fixed_lease_hears_of_it(locks: LockClient, ttl: float) -> None:
    hold = await locks.lock("k", ttl=ttl, renew=False).acquire()
    async with asyncio.timeout(ttl):
        await hold.wait_lost()
    assert hold.lost


async def least_left_after_an_outage(locks: LockClient, faults: Faults, ttl: float) -> float:
    """Acquire at the beginning of outages of all lengths; return by how little of the ttl the holds began."""
    left = []
    for seconds in (0.1, 1.0, 5.0, 10.0, 14.0, 14.6, 15.5, 29.0):
        faults.go_down()
        asked = asyncio.create_task(locks.lock("k", ttl=ttl, renew=False).acquire())
        await asyncio.sleep(seconds)
        faults.come_back()
        hold = await asked
        left.append(hold.remaining)
        await hold.release()
    return min(left)


async def test_a_fixed_lease_is_not_shortened_by_the_outage_before_it(locks: LockClient, faults: Faults) -> None:
    """What is known of it counts from the first request; one more then gives it all of its ttl."""
    assert await least_left_after_an_outage(locks, faults, 30.0) > 27.0


async def test_a_fixed_lease_that_ends_with_its_first_request_is_found(
    locks: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what is left of it passes for all of it."""
    monkeypatch.setattr(Place, "is_confirmed", True)
    assert await least_left_after_an_outage(locks, faults, 30.0) < 16.0
