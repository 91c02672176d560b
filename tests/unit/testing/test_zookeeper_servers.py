"""ZooKeeper in tests: one node and three."""

from __future__ import annotations

import pytest

from aiodlock.testing.servers import ZooKeeperEnsemble, ZooKeeperServer, require

pytestmark = pytest.mark.timeout(180)  # three servers start, on a busy machine one after the other


@pytest.fixture(autouse=True)
def _installed() -> None:
    require(ZooKeeperServer)


def test_one_node_is_ready_when_started_and_again_after_a_crash() -> None:
    with ZooKeeperServer() as server:
        assert server.mode == "standalone"
        server.crash()
        server.start()
        assert server.ask("ruok") == "imok"
        assert server.url == f"zk://127.0.0.1:{server.port}/aiodlock"


def test_three_nodes_have_one_leader_and_another_one_when_it_is_gone() -> None:
    with ZooKeeperEnsemble() as ensemble:
        leader = ensemble.leader
        assert [node.mode for node in ensemble.followers] == ["follower", "follower"]
        leader.crash()
        assert ensemble.leader is not leader
        leader.start()
        assert leader.mode == "follower"
    assert not any(node.running for node in ensemble.nodes)


def test_a_node_can_be_cut_off_from_the_others_and_still_answers() -> None:
    with ZooKeeperEnsemble(severable=True) as ensemble:
        follower = ensemble.followers[0]
        ensemble.cut_off(follower)
        assert follower.mode == "follower"
        while follower.mode:  # it gives up when it has not heard of the leader for ten ticks
            assert ensemble.leader is not follower
        ensemble.heal()
        while follower.mode != "follower":
            assert follower.running
