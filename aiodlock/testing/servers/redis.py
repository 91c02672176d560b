"""A single Redis server."""

from __future__ import annotations

from collections.abc import Sequence

from aiodlock.testing.servers.base import Server
from aiodlock.testing.servers.ports import HOST
from aiodlock.testing.servers.resp import RefusedError, ask, info

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
        # A replica's first copy begins at once, not when others may have come.
        return (self.program, *own, "--repl-diskless-sync-delay", "0", *self._persistence, *self._arguments)

    def is_ready(self) -> bool:
        """Tell whether our process, not another one on this port, answers commands."""
        try:
            ask(self.port, "PING", within=1.0)  # refused while it loads its data
            return b"process_id:%d\r\n" % self.pid in info(self.port, "server")
        except RefusedError as refusal:
            if str(refusal).startswith("NOAUTH"):
                return True
            raise
