"""A cancel at any step of an acquire or release leaves nothing, whatever server the line is on or on its way to."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import aiodlock
from aiodlock._core.place import Place
from aiodlock.testing.servers import RedisCluster
from tests.faults.cluster.servers import slot_of
from tests.integration.steps import sweep


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
