"""Look at a ZooKeeper from outside, by a four-letter word: a packet is a call, and so is a ping."""

from __future__ import annotations

from collections import Counter

from aiodlock.testing.servers import ZooKeeperServer
from benchmarks.observer import Seen, cpu_of

__all__ = ["ZooKeeperObserver"]


class ZooKeeperObserver:
    """See :class:`benchmarks.observer.Observer`; it asks over a new connection each time."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self._server = server
        self._asked = 0
        self.version = "ZooKeeper " + self._ask()["Zookeeper version"].split("-")[0]

    def clean(self) -> None:
        pass  # its containers go by themselves, and nobody's lock minds what another's has left

    def look(self) -> Seen:
        told = self._ask()
        packets = int(told["Received"]) - self._asked
        return Seen(commands=Counter({"packet": packets}), connections=int(told["Connections"]) - 1, busy=0.0)

    @property
    def cpu(self) -> float:
        return cpu_of(self._server.pid)

    def close(self) -> None:
        pass

    def _ask(self) -> dict[str, str]:
        self._asked += 1
        return dict(line.split(": ", 1) for line in self._server.ask("srvr").splitlines())
