"""A Redis Cluster: masters with a replica each, slots that can be moved, nodes that can be crashed and paused."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from aiodlock.testing.servers.base import Group, ServerFailedError
from aiodlock.testing.servers.ports import HOST, free_ports
from aiodlock.testing.servers.redis import RedisServer
from aiodlock.testing.servers.resp import Reply, ask, info
from aiodlock.testing.servers.tls import authority_in, tls_options

__all__ = ["ClusterNode", "RedisCluster"]

_SLOTS = 16_384
_READY_WITHIN = 60.0


class ClusterNode(RedisServer):
    """One server of a cluster; its bus has a port of its own, because the usual one may be out of range.

    With *certificates* it speaks TLS to the others, and to clients on ``tls_port``; the plain port is there as well.
    """

    def __init__(self, *, silence: float, certificates: Path | None = None) -> None:
        self.bus, self.tls_port = free_ports(2)
        own = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", str(self.bus))
        times = ("--cluster-node-timeout", str(round(silence * 1000)), "--cluster-replica-validity-factor", "0")
        super().__init__(arguments=(*own, *times))
        self._certificates = certificates

    def command(self) -> Sequence[str]:
        if self._certificates is None:
            return super().command()
        between = ("--tls-cluster", "yes", "--tls-replication", "yes")
        return (*super().command(), "--tls-port", str(self.tls_port), *between, *tls_options(self._certificates))

    @property
    def inner_port(self) -> int:
        """Where the others of its cluster send what they have for it."""
        return self.tls_port if self._certificates else self.port

    @property
    def id(self) -> str:
        return cast(bytes, self.ask("CLUSTER", "MYID")).decode()

    @property
    def is_master(self) -> bool:
        return b"role:master" in info(self.port, "replication")

    def ask(self, *words: str | int) -> Reply:
        """Send one command and return its reply."""
        return ask(self.port, *words)


class RedisCluster(Group[ClusterNode]):
    """*masters* servers that share the slots evenly, each with so many *replicas*.

    *silence*: seconds after which the others take a node for dead; a failover takes about twice that. *tls*: they speak
    TLS to each other, and ``url`` to them.
    """

    def __init__(self, *, masters: int = 3, replicas: int = 1, silence: float = 1.0, tls: bool = False) -> None:
        self._masters = masters
        self._certificates = tempfile.TemporaryDirectory(prefix="certificates-") if tls else None
        shared = Path(self._certificates.name) if self._certificates else None
        self.nodes = [ClusterNode(silence=silence, certificates=shared) for _ in range(masters * (1 + replicas))]

    @property
    def url(self) -> str:
        seeds = self.nodes[: self._masters]
        if self._certificates is None:
            return f"redis+cluster://{','.join(f'{HOST}:{node.port}' for node in seeds)}/0"
        hosts = ",".join(f"{HOST}:{node.tls_port}" for node in seeds)
        return f"rediss+cluster://{hosts}/0?ssl_ca_certs={authority_in(self._certificates.name)}"

    def close(self) -> None:
        super().close()
        if self._certificates is not None:
            self._certificates.cleanup()

    def masters(self) -> list[ClusterNode]:
        """Return the nodes that own slots now."""
        owners = {port for _, _, port in self._ranges()}
        return [node for node in self.nodes if node.port in owners]

    def owner(self, slot: int) -> ClusterNode:
        """Return the node that owns *slot*."""
        port = next(port for first, last, port in self._ranges() if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def start(self) -> Self:
        """Start all nodes, share the slots, and return when every node says that the cluster is well."""
        super().start()
        share = -(-_SLOTS // self._masters)
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self._masters:
                node.ask("CLUSTER", "ADDSLOTSRANGE", number * share, min((number + 1) * share, _SLOTS) - 1)
            self.nodes[0].ask("CLUSTER", "MEET", HOST, node.port, node.bus)
        self._until(lambda: all(self._info(node, "known_nodes") == str(len(self.nodes)) for node in self.nodes))
        for number, node in enumerate(self.nodes[self._masters :]):
            self._until(partial(node.ask, "CLUSTER", "REPLICATE", self.nodes[number % self._masters].id))
        self.await_well()
        self._until(lambda: all(self._lists_all(node) for node in self.nodes))
        return self

    def await_well(self) -> None:
        """Return when all running nodes agree that all slots are served, and every replica has its master's data."""
        self._until(lambda: all(self._is_well(node) for node in self.nodes if node.running))

    # --- slots -----------------------------------------------------------------------------------------------

    def move(self, slot: int, to: ClusterNode) -> None:
        """Move *slot* with its keys to another master, as resharding does, and return when all know it."""
        with self.moving(slot, to) as carry:
            carry()

    @contextmanager
    def moving(self, slot: int, to: ClusterNode) -> Iterator[Callable[[], None]]:
        """Keep *slot* between two masters for the time of a block; call what it yields to carry its keys over.

        At the end it belongs to the other one, also when the block fails.
        """
        source = self.owner(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        try:
            yield lambda: self._carry(slot, source, to)
        finally:
            self._carry(slot, source, to)
            for node in (to, source, *self.masters()):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)

    def _carry(self, slot: int, source: ClusterNode, to: ClusterNode) -> None:
        while keys := cast("list[bytes]", source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)):
            source.ask("MIGRATE", HOST, to.inner_port, "", 0, 5000, "KEYS", *(key.decode() for key in keys))

    def _ranges(self) -> Sequence[tuple[int, int, int]]:
        """Return first and last slot and the owner's port of each range, as soon as a node says that all is well."""
        found: list[Any] = []

        def ask_around() -> bool:
            for node in self.nodes:
                with contextlib.suppress(OSError):
                    if node.running and self._info(node, "state") == "ok":
                        found.extend(cast("list[Any]", node.ask("CLUSTER", "SLOTS")))
                        return True
            return False

        self._until(ask_around)
        return [(first, last, master[1]) for first, last, master, *_ in found]

    # --- readiness -------------------------------------------------------------------------------------------

    def _info(self, node: ClusterNode, name: str) -> str:
        text = cast(bytes, node.ask("CLUSTER", "INFO")).decode()
        return next(line.partition(":")[2] for line in text.splitlines() if line.startswith(f"cluster_{name}:"))

    def _lists_all(self, node: ClusterNode) -> bool:
        """Tell whether a node has heard of every replica; it may serve all slots before."""
        ranges = cast("list[list[object]]", node.ask("CLUSTER", "SLOTS"))
        return sum(len(servers) - 2 for servers in ranges) == len(self.nodes)

    def _is_well(self, node: ClusterNode) -> bool:
        if self._info(node, "state") != "ok" or self._info(node, "slots_ok") != str(_SLOTS):
            return False
        return node.is_master or b"master_link_status:up" in info(node.port, "replication")

    def _until(self, is_so: Callable[[], object]) -> None:
        end = time.monotonic() + _READY_WITHIN
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if is_so():
                    return
            time.sleep(0.02)
        raise ServerFailedError(
            f"the cluster did not get ready: {self.nodes[0].log.read_text(errors='replace')[-2000:]}"
        )
