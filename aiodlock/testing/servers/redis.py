"""A single Redis server."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from aiodlock.testing.servers.base import HOST, Server

__all__ = ["RedisServer", "ask"]


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
        # A replica's first copy begins at once, not when others may have come.
        return (self.program, *own, "--repl-diskless-sync-delay", "0", *self._persistence, *self._arguments)

    def is_ready(self) -> bool:
        """Tell whether our process, not another one on this port, answers commands."""
        answer = ask(self.port, "PING", "INFO server")
        ours = answer.startswith(b"+PONG") and b"process_id:%d\r\n" % self.pid in answer
        return ours or answer.startswith(b"-NOAUTH")


def ask(port: int, *commands: str, within: float = 1.0) -> bytes:
    """Return the raw replies of a Redis server, or of a sentinel, to some plain commands."""
    with socket.create_connection((HOST, port), within) as connection:
        connection.sendall("".join(f"{command}\r\n" for command in commands).encode())
        connection.shutdown(socket.SHUT_WR)  # the server answers, then closes; a sentinel knows no QUIT
        with connection.makefile("rb") as replies:
            return replies.read()
