"""Several processes contend while the slot of their key moves from server to server."""

from __future__ import annotations

import pytest

from aiodlock.testing.processes import WorkerFailedError
from aiodlock.testing.servers import RedisCluster
from tests.faults.cluster.servers import left_in, slot_of
from tests.faults.crew import Crew, judge

pytestmark = pytest.mark.timeout(300)


def move_about(cluster: RedisCluster, crew: Crew, *, times: int, starves: float = 15.0) -> None:
    """Move the crew's slot again and again, each time in two steps; in between everybody has to get on."""
    slot = slot_of(crew.key)
    crew.await_more(5)
    for number in range(times):
        target = next(node for node in cluster.masters() if node is not cluster.owner(slot))
        with cluster.moving(slot, target) as carry:
            crew.await_more(1, within=starves)
            carry()
            if number % 2:
                crew.await_more(1, within=starves)
        crew.await_more(2, within=starves)


@pytest.mark.parametrize(
    "kind",
    ["lock", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("fair lock", "rwlock", "semaphore"))],
)
def test_a_slot_moves_again_and_again(cluster: RedisCluster, kind: str) -> None:
    """Nobody is inside beside a holder, nobody starves, nothing is left."""
    with Crew("contend", [cluster.url] * 3, kind=kind, tasks=3, ttl=30.0) as crew:
        move_about(cluster, crew, times=4 if kind == "lock" else 8)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert left_in(cluster, crew.key) == []


def test_a_moving_slot_shows_who_does_not_follow_it(cluster: RedisCluster) -> None:
    """The broken twin: a redirection is an error like any other."""
    with (
        Crew("contend", [cluster.url] * 2, kind="lock", tasks=1, ttl=30.0, twin="follows_nobody") as crew,
        pytest.raises(WorkerFailedError, match="without event 'inside'"),
    ):
        move_about(cluster, crew, times=3, starves=3.0)


@pytest.mark.long
def test_many_slots_move_under_load(cluster: RedisCluster) -> None:
    """Resharding: both crews' slots and a hundred around them go to another master, and back."""
    with (
        Crew("contend", [cluster.url] * 2, kind="lock", tasks=2, ttl=30.0) as one,
        Crew("contend", [cluster.url] * 2, kind="fair lock", tasks=2, ttl=30.0) as two,
    ):
        for crew in (one, two):
            crew.await_more(5)
        middle = [slot_of(crew.key) for crew in (one, two)]
        slots = [slot for at in middle for slot in range(max(0, at - 25), min(16_384, at + 25))]
        owners = {slot: cluster.owner(slot) for slot in slots}
        others = {slot: next(node for node in cluster.masters() if node is not owners[slot]) for slot in slots}
        for target in (others, owners):
            for slot in slots:
                cluster.move(slot, target[slot])
            for crew in (one, two):
                crew.await_more(5)
        histories = [crew.finish() for crew in (one, two)]
    assert [judge(events) for events in histories] == [[], []]
    assert [left_in(cluster, crew.key) for crew in (one, two)] == [[], []]
