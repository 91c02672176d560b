"""Clusters for the fault tests: one that many tests share, and others that a test may kill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiodlock.testing.servers import RedisCluster, RedisServer, require


@pytest.fixture(scope="session")
def cluster() -> Iterator[RedisCluster]:
    require(RedisServer)
    with RedisCluster(silence=10) as running:  # no failover because the machine is busy
        yield running


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    """A cluster that a test may kill parts of."""
    require(RedisServer)
    with RedisCluster() as running:
        yield running
