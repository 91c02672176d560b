"""A master dies under load, and its replica takes over: what holds then, and what does not."""

from __future__ import annotations

import pytest

from aiodlock.testing.history import check_exclusion, check_fencing, stays
from aiodlock.testing.servers import RedisCluster
from tests.faults.cluster.servers import cut_off_replicas, fail_over, hand_over, left_in, slot_of, stop_writes
from tests.faults.crew import Crew, judge

TTL = 1.5

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("kind", ["lock", pytest.param("semaphore", marks=pytest.mark.long)])
def test_a_failover_that_loses_no_answered_write_is_survived(own_cluster: RedisCluster, kind: str) -> None:
    """Nobody is inside beside a holder, also while nobody knows who is master; then everybody gets on."""
    with Crew("contend", [own_cluster.url] * 3, kind=kind, tasks=3, ttl=TTL) as crew:
        crew.await_more(5)
        master = own_cluster.owner(slot_of(crew.key))
        stop_writes(master)
        fail_over(own_cluster, master)
        crew.await_more(5, within=20.0)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    own_cluster.await_well()
    assert left_in(own_cluster, crew.key) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["lock", "fair lock", "rwlock"])
def test_masters_are_replaced_again_and_again_in_good_order(own_cluster: RedisCluster, kind: str) -> None:
    """Holds go on at the new master: nobody is inside beside a holder, nobody loses a lock."""
    with Crew("contend", [own_cluster.url] * 3, kind=kind, tasks=3, ttl=30.0) as crew:
        for _ in range(3):
            crew.await_more(3, within=20.0)
            hand_over(own_cluster, slot_of(crew.key))
        crew.await_more(3, within=20.0)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert not any(event.what == "LockLostError" for event in events)
    assert left_in(own_cluster, crew.key) == []


def lose_what_was_answered(cluster: RedisCluster, crew: Crew) -> None:
    """Let one in of whom the replica does not hear, replace the master, and let another one in."""
    master = cluster.owner(slot_of(crew.key))
    cut_off_replicas(master)
    crew.join(cluster.url).await_event("inside", within=15)
    fail_over(cluster, master)
    crew.join(cluster.url).await_event("inside", within=15)


def test_a_failover_that_loses_an_answered_write_lets_two_in(own_cluster: RedisCluster) -> None:
    """What is not promised, and the twin of the test above; the fence is right all the same."""
    with Crew("hold", [], ttl=30.0) as crew:
        lose_what_was_answered(own_cluster, crew)
        history = stays(crew.events)
    assert [violation.rule for violation in check_exclusion(history)] == ["exclusion"]
    assert check_fencing(history) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["lock", "fair lock", "rwlock", "semaphore"])
def test_failovers_at_any_moment_keep_everybody_apart_where_the_replica_confirms(
    own_cluster: RedisCluster, kind: str
) -> None:
    """With `min_replicas` nobody believes what the heir may not know: no two inside, fences in order."""
    with Crew("contend", [own_cluster.url] * 3, kind=kind, tasks=3, ttl=TTL, min_replicas=1) as crew:
        master = own_cluster.owner(slot_of(crew.key))
        for _ in range(2):
            crew.await_more(5, within=20.0)
            heir = fail_over(own_cluster, master)
            master.start()  # now the one that confirms
            own_cluster.await_well()
            master = heir
        crew.await_more(5, within=20.0)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert left_in(own_cluster, crew.key) == []


@pytest.mark.long
def test_a_failover_shows_who_believes_what_no_replica_has(own_cluster: RedisCluster) -> None:
    """The broken twin of the test above."""
    with Crew("hold", [], ttl=30.0, min_replicas=1, twin="believes_unconfirmed") as crew:
        lose_what_was_answered(own_cluster, crew)
        assert "exclusion" in [line.partition(":")[0] for line in judge(crew.events)]


@pytest.mark.long
def test_a_failover_at_any_moment_keeps_the_fences_in_order(own_cluster: RedisCluster) -> None:
    """Killed in full flight, once a master and once its heir; answered writes may be lost, no fence goes back."""
    with Crew("contend", [own_cluster.url] * 3, kind="lock", tasks=3, ttl=TTL) as crew:
        master = own_cluster.owner(slot_of(crew.key))
        for _ in range(2):
            crew.await_more(5, within=20.0)
            heir = fail_over(own_cluster, master)
            crew.await_more(5, within=20.0)
            master.start()
            own_cluster.await_well()
            master = heir
        crew.await_more(5, within=20.0)
        events = crew.finish()
    assert check_fencing(stays(events)) == []
    assert left_in(own_cluster, crew.key) == []


@pytest.mark.long
def test_a_master_that_is_frozen_and_comes_back_deceives_nobody(own_cluster: RedisCluster) -> None:
    """It answers what had piled up as if it were still master; those answers are too old to be believed."""
    with Crew("contend", [own_cluster.url] * 3, kind="lock", tasks=3, ttl=TTL) as crew:
        crew.await_more(5)
        slot = slot_of(crew.key)
        master = own_cluster.owner(slot)
        with master.paused():
            crew.await_more(5, within=20.0)
        own_cluster.await_well()
        crew.await_more(5, within=20.0)
        events = crew.finish()
    assert check_fencing(stays(events)) == []
    assert left_in(own_cluster, crew.key) == []


@pytest.mark.long
def test_a_cluster_that_is_down_is_waited_for() -> None:
    """No replica takes over: the rest refuses everything until the lost master is back, with nothing in it."""
    with RedisCluster(replicas=0) as cluster, Crew("contend", [cluster.url] * 2, kind="lock", tasks=2, ttl=TTL) as crew:
        crew.await_more(5)
        master = cluster.owner(slot_of(crew.key))
        master.crash()
        crew.await_more(1, "BackendUnavailableError", within=20.0)
        master.start()
        cluster.await_well()
        crew.await_more(5, within=20.0)
        events = crew.finish()
        assert left_in(cluster, crew.key) == []
    assert check_fencing(stays(events)) == []
