"""Redis Sentinel: a master, two replicas, and three sentinels that replace the master when it is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, cast

from aiodlock.testing.servers.base import Server, ServerFailedError
from aiodlock.testing.servers.ports import HOST
from aiodlock.testing.servers.redis import RedisServer
from aiodlock.testing.servers.replica import RedisReplica
from aiodlock.testing.servers.resp import ask, info

__all__ = ["RedisSentinel", "SentinelService"]

_CONFIG = """\
port {port}
bind {host}
dir {directory}
sentinel monitor {service} {host} {master} 2
sentinel down-after-milliseconds {service} {down_after}
sentinel failover-timeout {service} {failover}
sentinel parallel-syncs {service} 2
"""


class RedisSentinel(Server):
    """One sentinel that watches the master on port *master* and replaces it together with one other."""

    program = "redis-sentinel"
    install = "apt-get install --no-install-recommends redis-sentinel"

    def __init__(self, *, master: int, service: str, down_after: float) -> None:
        super().__init__()
        facts = {"host": HOST, "port": self.port, "directory": self.directory, "master": master, "service": service}
        times = {"down_after": round(down_after * 1000), "failover": round(down_after * 4000)}
        self._config.write_text(_CONFIG.format(**facts, **times))  # it rewrites this file, and reads it when restarted

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def _config(self) -> Path:
        return self.directory / "sentinel.conf"

    def command(self) -> Sequence[str]:
        return (self.program, str(self._config))

    def is_ready(self) -> bool:
        return b"process_id:%d\r\n" % self.pid in info(self.port, "server")


class SentinelService:
    """One master, two replicas and three sentinels under the name *service*.

    A server that answers nobody for *down_after* seconds is replaced. Every member can be crashed, paused and started
    again as any other server; a former master comes back as a replica.
    """

    def __init__(self, *, service: str = "m1", down_after: float = 0.5, arguments: Sequence[str] = ()) -> None:
        first = RedisServer(arguments=arguments)
        self.service = service
        self.servers = [first, *(RedisReplica(of=first.port, arguments=arguments) for _ in range(2))]
        self.sentinels = [RedisSentinel(master=first.port, service=service, down_after=down_after) for _ in range(3)]

    @property
    def url(self) -> str:
        hosts = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.service}/0"

    @property
    def master(self) -> RedisServer:
        """The server that all running sentinels call master, and that says so itself; waits until there is one."""
        self._until(self._agreed, "one master", within=60.0)
        (port,) = self._named()
        return next(server for server in self.servers if server.port == port)

    def fail_over(self) -> RedisServer:
        """Have the sentinels make a replica the master, as an operator would; return it when all agree."""
        old = self.master
        self._until(
            lambda: ask(self.sentinels[0].port, "SENTINEL", "FAILOVER", self.service, within=1.0) == b"OK",
            "a failover",
        )
        return self.replaced(old)

    def replaced(self, old: RedisServer, *, within: float = 60.0) -> RedisServer:
        """Return the new master when all running sentinels agree on another than *old*."""
        self._until(lambda: self._agreed() and old.port not in self._named(), f"a master after {old!r}", within=within)
        return self.master

    def heal(self) -> None:
        """Start whoever is down and make all others copies of the master; sentinels would take ten seconds for that.

        A failover is over then: one whose new master dies before that would go on until it is back.
        """
        for server in (*self.sentinels, *self.servers):
            if not server.running:
                server.start()
        self._until(self._at_rest, "the end of a failover")
        master = self.master
        for server in self.servers:
            if server is not master:
                ask(server.port, "REPLICAOF", HOST, master.port)
        wanted = b"connected_slaves:%d" % (len(self.servers) - 1)
        self._until(lambda: wanted in info(master.port, "replication"), "all replicas")

    def __enter__(self) -> Self:
        try:
            for server in (*self.servers, *self.sentinels):
                server.start()
            self._until(self._complete, "sentinels that know each other", within=60.0)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all of them and remove their directories."""
        for server in (*self.sentinels, *self.servers):
            server.close()

    def _named(self) -> set[int]:
        """Return the ports of the masters that the running sentinels name."""
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
        answers = [ask(sentinel.port, *question, within=1.0) for sentinel in self.sentinels if sentinel.running]
        return {int(cast(bytes, answer[-1])) for answer in answers if isinstance(answer, list)}

    def _agreed(self) -> bool:
        named = self._named()
        return len(named) == 1 and b"role:master" in info(named.pop(), "replication")

    def _at_rest(self) -> bool:
        states = [ask(sentinel.port, "SENTINEL", "MASTER", self.service, within=1.0) for sentinel in self.sentinels]
        return not any(b"failover_in_progress" in flags for state in states for flags in cast("list[bytes]", state))

    def _complete(self) -> bool:
        wanted = b"slaves=2,sentinels=3"
        return all(wanted in info(sentinel.port, "sentinel") for sentinel in self.sentinels)

    def _until(self, is_so: Callable[[], bool], what: str, *, within: float = 60.0) -> None:
        end = time.monotonic() + within
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if is_so():
                    return
            time.sleep(0.01)
        raise ServerFailedError(f"{self.service}: not {what} within {within:g}s")
