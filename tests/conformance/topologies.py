"""The worlds of a Redis with replicas: what a client of one server can do, a client of many can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.discovery import Sentinels
from aiodlock.backends.redis.sentinel import SentinelBackend
from aiodlock.backends.redis.wire import Link
from aiodlock.testing.servers import SentinelService
from tests.conformance.worlds import RedisWorld


class ReplicatedWorld(RedisWorld):
    """A master whose replica has to have every grant."""

    def backend_at(self, port: int) -> RedisBackend:
        return RedisBackend.from_url(f"redis://127.0.0.1:{port}/0", min_replicas=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detour(Sentinels):
    """Finds the master, and goes there by a fault proxy."""

    port: int

    async def connect(self, protocol: Callable[[], Link]) -> Link:
        await self.master()
        return await replace(self.server, host="127.0.0.1", port=self.port).connect(protocol)


class SentinelWorld(RedisWorld):
    """A service of three servers; a check that needs faults has them between a client and the master."""

    def __init__(self, service: SentinelService) -> None:
        super().__init__(service.master)
        self._url = service.url

    def backend_at(self, port: int) -> RedisBackend:
        found = Sentinels.from_url(self._url)
        if self.needs != "faults":
            return SentinelBackend(found)
        return SentinelBackend(
            _Detour(service=found.service, sentinels=found.sentinels, server=found.server, port=port)
        )
