"""Lines kept in ZooKeeper as ephemeral sequential nodes; a lease is the session of the client that has the ticket."""

from aiodlock.backends.zookeeper.backend import ZooKeeperBackend

__all__ = ["ZooKeeperBackend"]
