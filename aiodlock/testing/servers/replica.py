"""A Redis that copies another one."""

from __future__ import annotations

from collections.abc import Sequence

from aiodlock.testing.servers.ports import HOST
from aiodlock.testing.servers.redis import RedisServer
from aiodlock.testing.servers.resp import ask, info

__all__ = ["RedisReplica"]


class RedisReplica(RedisServer):
    """A replica of the server on the loopback port *of*; that may be a fault proxy, so that a test can cut the copying.

    It is ready when it has everything that its master has; it cannot be started while its master is down.
    """

    def __init__(self, *, of: int, arguments: Sequence[str] = ()) -> None:
        super().__init__(arguments=("--replicaof", f"{HOST} {of}", *arguments))

    def is_ready(self) -> bool:
        if not super().is_ready():
            return False
        own = info(self.port, "replication")
        if b"role:master" in own:
            return True  # somebody has promoted it already
        master = int(own.partition(b"master_port:")[2].split()[0])
        # Both have to say so: the master when it has sent everything, the replica when it has read that.
        is_sent = b"port=%d,state=online" % self.port in info(master, "replication")
        return is_sent and b"master_link_status:up" in own

    def promote(self) -> None:
        """Make it a master with what it has; nobody else is told."""
        ask(self.port, "REPLICAOF", "NO", "ONE")
