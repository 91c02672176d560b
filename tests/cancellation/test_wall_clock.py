"""The same on loops whose time is real: asyncio's own, and uvloop's where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from tests.cancellation.conftest import ExpectNothing
from tests.cancellation.stage import Stage
from tests.cancellation.sweep import Cell, Report, sweep
from tests.cancellation.trigger import Plan
from tests.cancellation.wire import after_some_steps

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if find_spec("uvloop"):
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


class RealTimeStage(Stage):
    """A stage on which a busy machine may take its time, long before anything ends by itself."""

    async def settle(self, *, soon: float, within: float) -> None:
        await super().settle(soon=10.0, within=3.0)


PLANS = [Plan(how, ("cancel",) * n, (1,) * (n - 1)) for how in ("pending", "ready") for n in (1, 3)]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "operation", ["block", "acquire_with_limit", "try_acquire", "run", "lost_block", "client_block"]
)
def test_nothing_is_left(operation: str, loop: str, expect_nothing: ExpectNothing) -> None:
    report = Report()
    for state in ("free", "elsewhere"):
        cell = Cell(operation, state)
        report += sweep(cell, PLANS, loop_factory=LOOPS[loop], make=RealTimeStage, later=after_some_steps)
    expect_nothing(report)
