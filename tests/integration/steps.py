"""A cancel after every number of steps of the loop, on real servers."""

from __future__ import annotations

import asyncio

from aiodlock import LockClient
from tests.faults.visits import kept_by

__all__ = ["sweep"]

STEPS = 40  # of the loop; a whole visit takes fewer


async def visit(locks: LockClient, key: str) -> None:
    async with locks.lock(key, ttl=20):
        await asyncio.sleep(0)


async def sweep(locks: LockClient, other: LockClient, key: str, *, taken: bool) -> tuple[int, list[str]]:
    """Cancel a visit after every number of steps; return how often it was cancelled, and what was left."""
    cancelled, left = 0, list[str]()
    for steps in range(STEPS):
        hold = await other.lock(key, ttl=20).acquire() if taken else None
        visiting = asyncio.create_task(visit(locks, key))
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled += visiting.cancel()
        await asyncio.wait({visiting})
        if hold is not None:
            await hold.release()
        async with asyncio.timeout(3), other.lock(key, ttl=20):
            pass  # whoever is next gets in, long before a forgotten ticket ends
        # In this order: where clients have different servers, a leave may still be under way when the next one was in.
        left += [f"after {steps} steps: {thing}" for thing in await kept_by(locks)]
        left += [f"after {steps} steps: {row}" async for row in other.inspect(key)]
    return cancelled, left
