"""A cancel at any step of an acquire or release leaves nothing, whatever server the line is on or on its way to."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock._core.place import Place
from aiodlock.testing.servers import RedisCluster
from tests.faults.cluster.servers import slot_of
from tests.faults.visits import kept_by

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
        left += [f"after {steps} steps: {row}" async for row in other.inspect(key)]
        left += [f"after {steps} steps: {thing}" for thing in await kept_by(locks)]
    return cancelled, left


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"cancel-{request.node.name}"


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
@pytest.mark.parametrize("slot", ["at home", "moved", "between"])
async def test_a_cancel_at_any_step_leaves_nothing(cluster: RedisCluster, key: str, slot: str, taken: bool) -> None:
    """Found at once, by `MOVED`, or by `ASK`: the client learned the map before the slot began to move."""
    async with aiodlock.connect(cluster.url) as locks, aiodlock.connect(cluster.url) as other:
        with ExitStack() as moving:
            target = next(node for node in cluster.masters() if node is not cluster.owner(slot_of(key)))
            if slot == "moved":
                cluster.move(slot_of(key), target)
            elif slot == "between":
                moving.enter_context(cluster.moving(slot_of(key), target))
            cancelled, left = await sweep(locks, other, key, taken=taken)
    assert cancelled > 5
    assert left == []


async def test_a_client_that_never_leaves_is_found(
    cluster: RedisCluster, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: a cancelled waiter's ticket stays in line."""
    monkeypatch.setattr(Place, "_send_leave", lambda self: self._left(None))
    async with aiodlock.connect(cluster.url) as locks, aiodlock.connect(cluster.url) as other:
        with pytest.raises(TimeoutError):
            await sweep(locks, other, key, taken=False)
        monkeypatch.undo()
