"""force_release: whoever is inside loses the hold, also when it is one of the caller's own client."""

from __future__ import annotations

import pytest

import aiodlock


async def test_a_hold_of_ones_own_client_is_lost_at_once() -> None:
    """No renewal has to find out: when force_release returns, the hold says so."""
    async with aiodlock.connect("memory://") as locks:
        hold = await locks.lock("k").acquire()
        assert await locks.lock("k").force_release() == 1
        assert hold.lost
        with pytest.raises(aiodlock.LockLostError, match="force_release"):
            await hold.release()


async def test_the_next_local_waiter_gets_in() -> None:
    """It stands in line with a ticket of its own, and has a larger fence."""
    async with aiodlock.connect("memory://") as locks:
        lost = await locks.lock("k", reentrant=False).acquire()
        await locks.lock("k").force_release()
        async with locks.lock("k", wait=5) as hold:
            assert hold.fence > lost.fence
