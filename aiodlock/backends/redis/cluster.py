"""A Redis Cluster as a backend: the verbs of one server, over the cluster's route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from aiodlock._core.spread import SpreadStockroom
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Finding, Stockroom
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.backend import Lines
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.checks import diagnose
from aiodlock.backends.redis.cluster_route import Cluster
from aiodlock.backends.redis.hosts import urls_of_hosts
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.report import combine, gather_reports, judge_servers
from aiodlock.backends.redis.segment import RedisSegment
from aiodlock.backends.redis.slots import SlotMap, Spot
from aiodlock.errors import ConfigurationError
from aiodlock.policy import check_count

__all__ = ["ClusterBackend", "judge_slots"]


class ClusterBackend(Lines):
    """One client's connections to a Redis Cluster, known by one or more *seeds*; see `RedisBackend` for the rest.

    *min_replicas* are those of the master that keeps the line.

    *remap* turns the host and port that a server announces into those that lead to it, where they differ.
    """

    def __init__(
        self,
        seeds: Sequence[Address],
        *,
        prefix: str = "aiodlock",
        name: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
        min_replicas: int = 0,
        remap: Callable[[Spot], Spot] | None = None,
    ) -> None:
        if not seeds or any(seed.db or seed.path for seed in seeds):
            raise ConfigurationError("a Redis Cluster needs at least one host and port, and has only database 0")
        calls = Calls(Keys(prefix), pushes=pushes)
        hosts = ",".join(sorted(f"{seed.host}:{seed.port}" for seed in seeds))
        address = f"{'rediss' if seeds[0].tls else 'redis'}+cluster://{hosts}"
        self.min_replicas = check_count("min_replicas", min_replicas, least=0)
        self._cluster = Cluster(seeds, calls, name=name, patience=patience, remap=remap, min_replicas=self.min_replicas)
        super().__init__(self._cluster, calls, address=address)
        self.capabilities = replace(self.capabilities, trusts_calls=not min_replicas)

    async def diagnose(self) -> Sequence[Finding]:
        """Look at the map and at every master."""
        slots = await self._cluster.look()
        looks = {str(node.address): self._diagnose(node) for node in self._cluster.masters()}
        reports = await gather_reports(looks)
        servers = judge_servers([*reports], [*looks], needed=len(looks), otherwise="their keys are not served")
        return [judge_slots(slots), servers, *combine(reports)]

    def _diagnose(self, node: Node) -> Awaitable[Sequence[Finding]]:
        pushes = self.capabilities.pushes
        return diagnose(node, self._keys, pushes=pushes, min_replicas=self.min_replicas, cluster=True)

    def stock(self, terms: Terms) -> Stockroom:
        """Return the stock of a key; several segments are spread over the slots."""
        if terms.segments == 1:
            return super().stock(terms)
        segments = [RedisSegment(self._route, self._keys, terms, number) for number in range(terms.segments)]
        return SpreadStockroom(terms, segments)

    @classmethod
    def from_url(cls, url: str, *, unverified: bool = False, **settings: Any) -> ClusterBackend:
        """Return the backend of ``redis+cluster://h1,h2`` or ``rediss+cluster://h1,h2``."""
        urls = urls_of_hosts(url, url.partition("+")[0])
        return cls([Address.from_url(one, unverified=unverified) for one in urls], **settings)


def judge_slots(slots: SlotMap) -> Finding:
    """Say whether every key is served, and would be if a master died."""
    masters, replicas, unserved = len(slots.masters), len(slots.replicas), slots.unserved
    found = f"{masters} masters, {replicas} replicas"
    if unserved:
        advice = "start the masters that are away, or give their slots to others"
        return Finding("cluster", f"{found}, {unserved:,} slots that nobody serves", "error", advice)
    if replicas < masters:
        advice = "give every master a replica: without one its keys are not served when it dies"
        return Finding("cluster", found, "warning", advice)
    return Finding("cluster", f"{found}, all slots served")
