"""A Redis that copies another one."""

from __future__ import annotations

from collections.abc import Sequence

from aiodlock.testing.servers.base import HOST
from aiodlock.testing.servers.redis import RedisServer, ask

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
        info = ask(self.port, "INFO replication")
        if b"role:master" in info:
            return True  # somebody has promoted it already
        master = int(info.partition(b"master_port:")[2].split()[0])
        # Its own word comes too early: the master counts it only after the first confirmation.
        return b"port=%d,state=online" % self.port in ask(master, "INFO replication")

    def promote(self) -> None:
        """Make it a master with what it has; nobody else is told."""
        answer = ask(self.port, "REPLICAOF NO ONE")
        if answer != b"+OK\r\n":
            raise RuntimeError(f"{self!r} was not promoted: {answer.decode()}")
