"""The doctor looks at every master of a cluster, and at its map."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock.backends.redis.acl import CLUSTER_COMMANDS, acl_line
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.cli.doctor import examine
from aiodlock.cli.session import Stop
from aiodlock.events import Event, SetupDoubted
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisCluster
from tests.integration.cluster.conftest import Member
from tests.integration.cluster.test_access import tell_all
from tests.integration.redis.conftest import until

Connect = Callable[..., Awaitable[Member]]

WHATS = ["cluster", "servers", "version", "memory", "replicas", "min-replicas", "rights"]


async def test_a_cluster_as_it_is_set_up_is_well(client: Member, cluster: RedisCluster) -> None:
    """But for masters that go on alone; and looking changes nothing."""
    before = [node.ask("DBSIZE") for node in cluster.nodes]
    findings = {finding.what: finding for finding in await client.backend.diagnose()}
    assert list(findings) == WHATS
    assert {what for what in WHATS if findings[what].level != "ok"} == {"min-replicas"}
    assert findings["cluster"].found == "3 masters, 3 replicas, all slots served"
    assert findings["servers"].found == "3 of 3 answer"
    assert [node.ask("DBSIZE") for node in cluster.nodes] == before


async def test_one_master_that_throws_keys_away_is_named(
    cluster: RedisCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, and to whoever listens when it connects."""
    heard: list[Event] = []
    sick = cluster.masters()[1]
    sick.ask("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Stop, match="1 of these checks failed"):
            await examine(aiodlock.connect(cluster.url, on_event=heard.append))
    finally:
        sick.ask("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    told = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("error    memory"))
    assert str(sick.port) in told
    assert not any(str(node.port) in told for node in cluster.nodes if node is not sick)
    await until(lambda: any(isinstance(event, SetupDoubted) and event.what == "memory" for event in heard))


async def test_a_master_that_is_silent_is_named(cluster: RedisCluster) -> None:
    """Its keys are not served: an error; the others are looked at."""
    masters = cluster.masters()
    with FaultProxy(masters[0].port) as proxy:
        seeds = [Address(host="127.0.0.1", port=node.port) for node in masters]
        remap = {masters[0].port: proxy.port}
        backend = ClusterBackend(seeds, patience=1.0, remap=lambda spot: (spot[0], remap.get(spot[1], spot[1])))
        async with LockClient(backend) as locks:
            await locks.ping()
            proxy.refuse()
            proxy.reset()
            _, servers, *others = await backend.diagnose()
    assert servers.level == "error"
    assert str(proxy.port) in servers.found
    assert [finding.what for finding in others] == WHATS[2:]


ALWAYS = {"ping", "hello", "ssubscribe", "cluster|slots"}  # refused at connect, not later


@pytest.mark.parametrize("missing", [None, *sorted({*CLUSTER_COMMANDS} - ALWAYS)])
async def test_a_missing_right_is_named(connect: Connect, cluster: RedisCluster, missing: str | None) -> None:
    """And with the documented ones nothing is missing."""
    tell_all(cluster, *acl_line("doctored", "pw", cluster=True), *([f"-{missing}"] if missing else []))
    user = await connect(cluster.url.replace("://", "://doctored:pw@"))
    *_, rights = await user.backend.diagnose()
    assert rights.found == (f"missing: {missing}" if missing else "all that locks need")
