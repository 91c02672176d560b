"""The same sweep on real servers: a Redis, behind sentinels, in a cluster, in a majority; ZooKeeper; MariaDB.

A short matrix in every run; where there is time, every operation that needs no broken network, with every synchronizer
and every policy. With a broken one: test_real_losses.py.
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
from tests.cancellation.matrix import ONCE
from tests.cancellation.mutations import MUTATIONS
from tests.cancellation.real import Connect, RealStage
from tests.cancellation.real_matrix import ON_SINGLE, OPERATED, SHORT, cells
from tests.cancellation.states import POLICIES
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
# At every suspension; with the lock, before every callback and with further cancels too.
PLANS = {True: [*ONCE, Plan("ready", ("cancel",) * 3, (1, 1))], False: [Plan("pending"), Plan("ready")]}

# Something broken, and with which policy or synchronizer it is seen.
FORGETS, SWALLOWS = "a grant that nobody took is forgotten", "a release swallows a cancel"
BROKEN = [
    *((FORGETS, Cell("block", "free", policy)) for policy in POLICIES if policy != "lingering"),
    *((FORGETS, Cell("block", "elsewhere", kind=kind)) for kind in ("read", "write", "semaphore")),
    ("a place lingers for ever", Cell("block", "idle", "lingering")),
    (SWALLOWS, Cell("release", "company", "fair")),
    (SWALLOWS, Cell("release", "company", kind="semaphore")),
]
BROKEN_LONG = [
    ("the baton is dropped", Cell("block", "local", "capped")),
    ("half a multi-lock is kept", Cell("block", "elsewhere", kind="multi")),
    ("a race has two winners", Cell("block", "elsewhere", kind="any segment")),
    ("a latch is watched by nobody", Cell("opened_too_late", "free")),
    ("an order is taken by another id", Cell("take", "free")),
]

on_single = pytest.mark.parametrize("topology", ["single"], indirect=True)


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


def test_a_cancel_at_any_point_leaves_nothing(make: Make, expect_nothing: ExpectNothing) -> None:
    """The short matrix: before every callback that the loop runs, and at every suspension."""
    expect_nothing(swept(SHORT, ONCE, loop_factory=Beating, make=make))


@on_single
def test_whatever_the_policy_or_the_synchronizer(make: Make, expect_nothing: ExpectNothing) -> None:
    """A little of each, where one server has to do."""
    expect_nothing(swept(ON_SINGLE, ONCE, loop_factory=Beating, make=make))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", OPERATED)
def test_whatever_is_done(topology: tuple[str, str], make: Make, operation: str, expect_nothing: ExpectNothing) -> None:
    """With every synchronizer and policy, in every state that needs no broken network."""
    chosen, report = list(cells(topology[0], operation)), Report()
    for is_lock, plans in PLANS.items():
        some = [cell for cell in chosen if (cell.kind == "lock") == is_lock]
        report += swept(some, plans, loop_factory=Beating, make=make)
    if chosen:
        expect_nothing(report)


def test_a_client_that_never_leaves_is_found(make: Make, expect: Expect, hasty: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    hasty.setattr(Place, "_send_leave", lambda self: self._left(None))
    expect(swept([Cell("block", "free")], [Plan("pending")], loop_factory=Beating, make=make), "orphan")


@on_single
@pytest.mark.filterwarnings("ignore:a hold of:ResourceWarning")
@pytest.mark.parametrize(
    ("name", "cell"), [*BROKEN, *(pytest.param(*row, marks=pytest.mark.long) for row in BROKEN_LONG)], ids=str
)
def test_a_broken_engine_is_caught(
    make: Make, name: str, cell: Cell, hasty: pytest.MonkeyPatch, expect: Expect
) -> None:
    """The broken twins of the policies and of the other synchronizers."""
    MUTATIONS[name].breaks(hasty)
    expect(swept([cell], ONCE, loop_factory=Beating, make=make), MUTATIONS[name].shows)
