"""A Redis Cluster as a backend: the verbs of one server, over the cluster's route."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiodlock._core.spread import SpreadStockroom
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Stockroom
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.backend import Lines
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.cluster_route import Cluster
from aiodlock.backends.redis.hosts import urls_of_hosts
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.segment import RedisSegment
from aiodlock.backends.redis.slots import Spot
from aiodlock.errors import ConfigurationError

__all__ = ["ClusterBackend"]


class ClusterBackend(Lines):
    """One client's connections to a Redis Cluster, known by one or more *seeds*; see `RedisBackend` for the rest.

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
        remap: Callable[[Spot], Spot] | None = None,
    ) -> None:
        if not seeds or any(seed.db or seed.path for seed in seeds):
            raise ConfigurationError("a Redis Cluster needs at least one host and port, and has only database 0")
        calls = Calls(Keys(prefix), pushes=pushes)
        hosts = ",".join(sorted(f"{seed.host}:{seed.port}" for seed in seeds))
        address = f"{'rediss' if seeds[0].tls else 'redis'}+cluster://{hosts}"
        super().__init__(Cluster(seeds, calls, name=name, patience=patience, remap=remap), calls, address=address)

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
