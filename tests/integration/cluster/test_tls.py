"""A cluster over TLS: servers among themselves, clients with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import aiodlock
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.errors import BackendError, ConfigurationError
from aiodlock.testing.servers import RedisCluster, TlsRedisServer, require
from tests.faults.cluster.servers import slot_of
from tests.integration.cluster.conftest import elsewhere

KEYS = [f"tls-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def tls() -> Iterator[RedisCluster]:
    require(TlsRedisServer)
    with RedisCluster(tls=True, silence=10) as running:
        yield running


async def test_locks_on_every_master_and_calls_between_clients(tls: RedisCluster) -> None:
    """Every server is found by its TLS port, and a release wakes who waits in another client."""
    assert tls.url.startswith("rediss+cluster://")
    async with aiodlock.connect(tls.url) as mine, aiodlock.connect(tls.url) as other:
        holds = [await mine.lock(key).acquire() for key in KEYS]
        waiting = [asyncio.create_task(other.lock(key).acquire()) for key in KEYS]
        async with asyncio.timeout(10):
            while len([row async for row in mine.inspect("tls-*")]) < 2 * len(KEYS):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for hold in holds:
                await hold.release()
            for hold in await asyncio.gather(*waiting):
                await hold.release()
        assert isinstance(mine.backend, ClusterBackend)
        ports = {node.address.port for node in mine.backend._route.masters()}  # type: ignore[attr-defined]
        assert ports == {node.tls_port for node in tls.masters()}


async def test_a_slot_that_moves_is_followed(tls: RedisCluster) -> None:
    """The redirection names the TLS port of its new server."""
    async with aiodlock.connect(tls.url) as locks:
        async with locks.lock("moved", ttl=20) as hold:
            await asyncio.to_thread(tls.move, slot_of("moved"), await elsewhere(tls, slot_of("moved")))
            await hold.extend(30)
            hold.check()
        assert not await locks.lock("moved").locked()


async def test_servers_that_are_not_known_are_refused(tls: RedisCluster) -> None:
    """Without their authority, by TLS that checks nothing unless one says so, and without TLS on this port."""
    bare = tls.url.partition("?")[0]
    for url in (bare, bare.replace("rediss+", "redis+")):
        with pytest.raises(BackendError):
            await aiodlock.connect(url, patience=1.0).start()
    with pytest.raises(ConfigurationError, match="unverified=True"):
        aiodlock.connect(f"{bare}?ssl_cert_reqs=none")
    async with aiodlock.connect(f"{bare}?ssl_cert_reqs=none", unverified=True) as locks, locks.lock("unverified"):
        pass
