"""A cancel while something is lost on the way to a real Redis, or the server is gone: nothing is left there either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer, require
from tests.cancellation.conftest import Expect, ExpectNothing
from tests.cancellation.proxied import ProxiedStage
from tests.cancellation.real_matrix import OPERATED, lost_cells, troubled_cells
from tests.cancellation.states import POLICIES
from tests.cancellation.sweep import Cell, Report
from tests.cancellation.test_sweep import swept
from tests.cancellation.trigger import Beating, Plan
from tests.faults.twins import TWINS
from tests.fuzz.twins import broken
from tests.integration.redis.scripts import load_scripts

SHORT, LONG = [Plan("beat"), Plan("ready")], [Plan("pending"), Plan("ready")]
HARM = ("requests_dropped", "replies_dropped", "held_back")  # as the proxy counts it

Sweep = Callable[..., Report]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        load_scripts(running)  # or what is harmed is only asked for its script
        yield running


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def sweep(server: RedisServer, proxy: FaultProxy) -> Sweep:
    return partial(swept, loop_factory=Beating, make=partial(ProxiedStage, server=server, proxy=proxy))


@pytest.mark.parametrize("cell", lost_cells(), ids=str)
def test_a_cancel_and_a_loss_leave_nothing(
    sweep: Sweep, proxy: FaultProxy, cell: Cell, expect_nothing: ExpectNothing
) -> None:
    """A join or a leave is lost, there or back, or comes when all is over; each at every point of a block."""
    report = sweep([cell], SHORT)
    expect_nothing(report)
    assert sum(getattr(proxy.counts, harm) for harm in HARM) >= report.points


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", [name for name in OPERATED if troubled_cells(name)])
def test_whatever_is_done_in_trouble(sweep: Sweep, operation: str, expect_nothing: ExpectNothing) -> None:
    """Every operation, where a message of any verb is lost, or the server goes away."""
    expect_nothing(sweep(troubled_cells(operation), LONG))


@pytest.mark.parametrize(
    ("state", "twin"),
    [("join unanswered", "another_id_each_time"), ("join late", "no_burying"), ("leave lost", "leaves_once")],
)
def test_who_is_careless_with_a_loss_is_found(
    sweep: Sweep, state: str, twin: str, hasty: pytest.MonkeyPatch, expect: Expect
) -> None:
    """The broken twins; they wait for a new connection, and not for ever for their own orphan."""
    hasty.setattr("tests.cancellation.real._WITHIN", 0.3)
    hasty.setitem(POLICIES, "limit", {"wait": 0.2})
    with broken(TWINS[twin]):
        expect(sweep([Cell("block", state, "limit")], [Plan("pending")]), "orphan")
