"""A ZooKeeper server, and an ensemble of three."""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self

from aiodlock.testing.servers.base import MissingServerError, Server, ServerFailedError
from aiodlock.testing.servers.ports import HOST, free_ports

if TYPE_CHECKING:
    from aiodlock.testing.proxy import FaultProxy

__all__ = ["ZooKeeperEnsemble", "ZooKeeperServer"]

_JARS = (Path("/usr/share/java/zookeeper.jar"), Path("/usr/share/java/slf4j-simple.jar"))

# Small and quick to start. What is written is not forced to disk: it survives kill -9, not a power cut.
_JVM = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.forceSync=no",
)


class ZooKeeperServer(Server):
    """One node, alone or of an ensemble; *settings* are further lines of its configuration.

    Empty containers are removed after about *empty_for* seconds; by ZooKeeper's own default it is a minute.
    A tick is a fifth of a second, so that sessions may be as short as 0.4 seconds.
    """

    program = "java"
    install = "apt-get install --no-install-recommends zookeeper"

    def __init__(self, *, settings: Sequence[str] = (), number: int = 0, empty_for: float = 0.1) -> None:
        super().__init__()
        self._empty_for = empty_for
        (self.directory / "data").mkdir()
        if number:
            (self.directory / "data" / "myid").write_text(f"{number}\n")
        own = (
            "tickTime=200",
            f"dataDir={self.directory}/data",
            f"clientPort={self.port}",
            f"clientPortAddress={HOST}",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
            "minSessionTimeout=400",
            "maxSessionTimeout=60000",
        )
        self._configuration.write_text("\n".join((*own, *settings, "")))

    @classmethod
    def missing(cls) -> MissingServerError | None:
        if shutil.which(cls.program) and all(jar.exists() for jar in _JARS):
            return None
        return MissingServerError("zookeeper", install=cls.install)

    @property
    def url(self) -> str:
        return f"zk://{HOST}:{self.port}/aiodlock"

    def command(self) -> Sequence[str]:
        path = ":".join(map(str, _JARS))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        containers = f"-Dznode.container.checkIntervalMs={self._empty_for * 1000:.0f}"
        return (self.program, *_JVM, containers, "-cp", path, main, str(self._configuration))

    def is_ready(self) -> bool:
        return bool(self.mode)

    @property
    def mode(self) -> str:
        """``standalone``, ``leader``, ``follower``, or nothing while it does not serve."""
        _, _, told = self.ask("srvr").partition("Mode: ")
        return told.partition("\n")[0]

    def ask(self, word: str) -> str:
        """Return what it says to a four-letter word."""
        with socket.create_connection((HOST, self.port), 1.0) as connection:
            connection.sendall(word.encode())
            with connection.makefile("rb") as answer:
                return answer.read().decode()

    @property
    def _configuration(self) -> Path:
        return self.directory / "zoo.cfg"


class ZooKeeperEnsemble:
    """Three nodes. With *severable* links a node can be cut off from the others and still hear its clients.

    *tick*: in seconds; twice a tick the leader asks the others of which clients they have heard. *silence*: ticks after
    which leader and follower take each other for dead.
    """

    def __init__(self, *, severable: bool = False, tick: float = 0.2, silence: int = 10) -> None:
        self._tick, self._silence = tick, silence
        self._stack = contextlib.ExitStack()
        ports = free_ports(6)
        self._quorum, self._election = ports[:3], ports[3:]
        self._links: dict[tuple[int, int], FaultProxy] = {}
        if severable:
            from aiodlock.testing.proxy import FaultProxy  # it takes its port from this package

            pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
            self._links = {pair: FaultProxy(self._quorum[pair[1]]) for pair in pairs}
        self.nodes = [ZooKeeperServer(settings=self._settings(number), number=number + 1) for number in range(3)]

    @property
    def url(self) -> str:
        return f"zk://{','.join(f'{HOST}:{node.port}' for node in self.nodes)}/aiodlock"

    @property
    def leader(self) -> ZooKeeperServer:
        """The node that leads, as soon as there is one."""
        end = time.monotonic() + ZooKeeperServer.ready_within
        while time.monotonic() < end:
            for node in self._serving():
                if node.mode == "leader":
                    return node
            time.sleep(0.02)
        raise ServerFailedError("the ensemble has no leader")

    @property
    def followers(self) -> list[ZooKeeperServer]:
        leader = self.leader
        return [node for node in self.nodes if node is not leader]

    def wait_until_whole(self) -> None:
        """Return when all nodes serve and one of them leads: one that comes back follows a moment later."""
        end = time.monotonic() + ZooKeeperServer.ready_within
        while sorted(node.mode for node in self._serving()) != ["follower", "follower", "leader"]:
            if time.monotonic() > end:
                raise ServerFailedError("the ensemble is not whole")
            time.sleep(0.02)

    def cut_off(self, node: ZooKeeperServer) -> None:
        """Let nothing through between *node* and the others; its clients notice nothing of it."""
        number = self.nodes.index(node)
        for pair, link in self._links.items():
            if number in pair:
                link.half_open()

    def heal(self) -> None:
        for link in self._links.values():
            link.heal()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            for link in self._links.values():
                undo.enter_context(link).refuse()
            for node in self.nodes:
                undo.callback(node.close)
            with ThreadPoolExecutor(len(self.nodes)) as starters:  # none is ready before it has met another
                started = [starters.submit(node.start) for node in self.nodes]
                while self._links and not all(start.done() for start in started):
                    self._open_links()
                    time.sleep(0.02)
                for start in started:
                    start.result()
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open_links(self) -> None:
        """Open the links to whoever leads: a follower that is let in where nobody listens begins another election."""
        for link in self._links.values():
            with contextlib.suppress(OSError):
                socket.create_connection((HOST, link.target), 1.0).close()
                link.heal()

    def _settings(self, number: int) -> list[str]:
        """Return what a node is told about the others; where they are is its own view of them."""
        lines = [f"tickTime={self._tick * 1000:.0f}", "initLimit=20", f"syncLimit={self._silence}"]
        for other in range(3):
            link = self._links.get((number, other))
            quorum = link.port if link else self._quorum[other]
            lines.append(f"server.{other + 1}={HOST}:{quorum}:{self._election[other]}")
        return lines

    def _serving(self) -> Iterator[ZooKeeperServer]:
        for node in self.nodes:
            with contextlib.suppress(OSError):
                if node.running and node.is_ready():
                    yield node
