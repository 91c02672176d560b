"""What the observer counts of a ZooKeeper is what it was sent."""

from __future__ import annotations

from contextlib import closing

from kazoo.client import KazooClient

from aiodlock.testing.servers import ZooKeeperServer, require
from benchmarks.observer import split
from benchmarks.peers import PEERS
from benchmarks.zookeeper_observer import ZooKeeperObserver

CALLS = 200


def test_packets_and_connections_are_counted() -> None:
    """Every request is one, and the observer's own are none; pings may come in between."""
    require(ZooKeeperServer)
    with ZooKeeperServer() as server, closing(ZooKeeperObserver(server)) as observer:
        client = KazooClient(hosts=f"127.0.0.1:{server.port}", timeout=30)
        client.start()
        before = observer.look()
        for _ in range(CALLS):
            client.exists("/")
        after = observer.look()
        client.stop()
        client.close()
    assert after.connections == 1
    assert CALLS <= split(before, after, PEERS["kazoo"]).sent <= CALLS + 20
