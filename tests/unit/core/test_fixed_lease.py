"""A lease that is not renewed is looked after to its end."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import LockClient, LockLostError


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
