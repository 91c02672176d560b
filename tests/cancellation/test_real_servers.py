"""The same sweep on real servers: a Redis, behind sentinels, in a cluster, in a majority; ZooKeeper; MariaDB.

A short matrix in every run; where there is time, every operation that needs no broken network, with every synchronizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock._core.place import Place
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.testing.servers import (
    IndependentMasters,
    MariaDBServer,
    RedisCluster,
    RedisSentinel,
    RedisServer,
    SentinelService,
    ZooKeeperServer,
    require,
)
from tests.cancellation.conftest import Expect, ExpectNothing
from tests.cancellation.kinds import KINDS
from tests.cancellation.matrix import ENTERING
from tests.cancellation.operations import OPERATIONS
from tests.cancellation.real import Connect, RealStage
from tests.cancellation.sweep import Cell, Report
from tests.cancellation.test_sweep import swept
from tests.cancellation.trigger import Beating, Plan

SERVERS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "single": RedisServer,
    "sentinel": partial(SentinelService, down_after=10),  # no failover because the machine is busy
    "cluster": partial(RedisCluster, silence=10),
    "redlock": IndependentMasters,
    "zookeeper": ZooKeeperServer,
    "mysql": MariaDBServer,
}
Make: TypeAlias = "Callable[..., RealStage]"
KINDS_OF_REDLOCK = {"lock", "read", "write", "multi", "election"}
LATCHES = {"count_down", "opened_too_late"}
NOT_HERE = {  # what reaches into the memory server
    *("opened", "take", "reserve", "restock"),
    "control",  # nothing of ours
}
STATES = ("free", "elsewhere", "local", "company", "idle")
# Before every callback with the lock; at every suspension with the others, which do the same by other lines.
PLANS = {True: [Plan("beat"), Plan("ready", ("cancel",) * 3, (1, 1))], False: [Plan("pending"), Plan("ready")]}
SHORT = [Cell("block", "free"), Cell("block", "elsewhere"), Cell("release", "company"), Cell("client_block", "free")]


@pytest.fixture(scope="module", params=SERVERS)
def topology(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The name of a topology, and the URL of servers set up so."""
    require({"zookeeper": ZooKeeperServer, "mysql": MariaDBServer}.get(request.param, RedisServer))
    if request.param == "sentinel":
        require(RedisSentinel)
    with SERVERS[request.param]() as running:
        yield request.param, running.url


@pytest.fixture
def connect(topology: tuple[str, str]) -> Connect:
    kind, url = topology

    def connect(name: str, prefix: str) -> LockClient:
        if kind == "zookeeper":  # with a session so long that nothing ends by itself
            return aiodlock.connect(f"{url}/{prefix}", name=name, session=30.0, tick=0.2)
        settings = {} if kind == "mysql" else {"prefix": prefix}
        return aiodlock.connect(url, name=name, **settings)

    return connect


class MySQLStage(RealStage):
    """Runs share their lines, which have no prefix there; each clears away what it leaves."""

    def __init__(self, *arguments: Any, url: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._url = url

    async def close(self) -> None:
        await super().close()
        link = await Link.open(Address.from_url(self._url))
        for table in ("lines", "tickets", "latches", "latch_marks"):
            await link.ask(f"DELETE FROM aiodlock_{table}")
        await link.aclose()


@pytest.fixture
def make(topology: tuple[str, str], connect: Connect) -> Make:
    if topology[0] == "mysql":
        return partial(MySQLStage, connect=connect, url=topology[1])
    return partial(RealStage, connect=connect)


def cells(topology: str, operation: str) -> Iterator[Cell]:
    """Return every cell of *operation* that these servers know, and whose network is well."""
    facts = OPERATIONS[operation]
    for kind in KINDS if operation in ENTERING else facts.kinds:
        if topology == "redlock" and (kind not in KINDS_OF_REDLOCK or operation in LATCHES):
            continue
        states = STATES if kind == "lock" else STATES[:2]
        yield from (Cell(operation, state, kind=kind) for state in facts.states if state in states)


def test_a_cancel_at_any_point_leaves_nothing(make: Make, expect_nothing: ExpectNothing) -> None:
    """The short matrix: before every callback that the loop runs."""
    expect_nothing(swept(SHORT, [Plan("beat")], loop_factory=Beating, make=make))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", sorted(OPERATIONS.keys() - NOT_HERE))
def test_whatever_is_done(topology: tuple[str, str], make: Make, operation: str, expect_nothing: ExpectNothing) -> None:
    """With every synchronizer, in every state that needs no broken network."""
    chosen, report = list(cells(topology[0], operation)), Report()
    for is_lock, plans in PLANS.items():
        some = [cell for cell in chosen if (cell.kind == "lock") == is_lock]
        report += swept(some, plans, loop_factory=Beating, make=make)
    if chosen:
        expect_nothing(report)


def test_a_client_that_never_leaves_is_found(make: Make, expect: Expect, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(Place, "_send_leave", lambda self: self._left(None))
    monkeypatch.setattr("tests.cancellation.real._WITHIN", 0.1)
    expect(swept([Cell("block", "free")], [Plan("pending")], loop_factory=Beating, make=make), "orphan")
