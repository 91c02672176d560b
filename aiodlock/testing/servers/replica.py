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
        return super().is_ready() and b"master_link_status:up" in ask(self.port, "INFO replication")

    def promote(self) -> None:
        """Make it a master with what it has; nobody else is told."""
        answer = ask(self.port, "REPLICAOF NO ONE")
        if answer != b"+OK\r\n":
            raise RuntimeError(f"{self!r} was not promoted: {answer.decode()}")
