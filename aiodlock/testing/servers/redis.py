"""A single Redis server."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from aiodlock.testing.servers.base import HOST, Server

__all__ = ["RedisServer"]


class RedisServer(Server):
    """A Redis without persistence, or a *durable* one that has every answered write on disk.

    *arguments* go to the command line as they are, for example ``("--maxmemory", "10mb")``.
    """

    program = "redis-server"
    install = "apt-get install --no-install-recommends redis-server"

    def __init__(self, *, durable: bool = False, arguments: Sequence[str] = ()) -> None:
        super().__init__()
        self._persistence = ("--appendonly", "yes", "--appendfsync", "always") if durable else ("--appendonly", "no")
        self._arguments = tuple(arguments)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def command(self) -> Sequence[str]:
        own = ("--port", str(self.port), "--bind", HOST, "--dir", str(self.directory), "--save", "")
        return (self.program, *own, *self._persistence, *self._arguments)

    def is_ready(self) -> bool:
        """Tell whether our process, not another one on this port, answers commands."""
        with socket.create_connection((HOST, self.port), 1.0) as connection:
            connection.sendall(b"PING\r\nINFO server\r\nQUIT\r\n")
            with connection.makefile("rb") as replies:
                answer = replies.read()
        ours = answer.startswith(b"+PONG") and b"process_id:%d\r\n" % self.pid in answer
        return ours or answer.startswith(b"-NOAUTH")
