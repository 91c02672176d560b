"""A cancel at every point of every public coroutine: nothing is left, nothing is swallowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from tests.cancellation.conftest import ExpectNothing
from tests.cancellation.kinds import KINDS
from tests.cancellation.matrix import (
    ENTERING,
    ONCE,
    REPEATED,
    STATED,
    WAYS,
    every_cell,
    plain_cells,
    short_cells,
)
from tests.cancellation.operations import OPERATIONS
from tests.cancellation.sweep import Cell, Report, sweep
from tests.cancellation.trigger import BeatLoop, Plan
from tests.cancellation.wire import TaskBackend

each_operation = pytest.mark.parametrize("operation", OPERATIONS)


def swept(cells: Iterable[Cell], plans: Iterable[Plan], **settings: Any) -> Report:
    report, plans = Report(), list(plans)
    for cell in cells:
        report += sweep(cell, plans, **settings)
    return report


@each_operation
def test_a_cancel_at_any_point_leaves_nothing(operation: str, expect_nothing: ExpectNothing) -> None:
    expect_nothing(swept((cell for cell in plain_cells() if cell.operation == operation), ONCE))


@pytest.mark.parametrize("policy", ["limit", "lingering", "fair", "fixed", "capped", "polling", "retrying"])
def test_whatever_the_policy(policy: str, expect_nothing: ExpectNothing) -> None:
    cells = [Cell("block", state, policy) for state in ("elsewhere", "idle")]
    cells += [cell for cell in short_cells() if cell.policy == policy]
    expect_nothing(swept(cells, [Plan("beat")]))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lock"])
def test_whatever_the_synchronizer(kind: str, expect_nothing: ExpectNothing) -> None:
    cells = [Cell("block", "elsewhere", kind=kind), *(cell for cell in short_cells() if cell.kind == kind)]
    expect_nothing(swept(cells, [Plan("beat")]))


@each_operation
def test_further_cancels_during_clean_up(operation: str, expect_nothing: ExpectNothing) -> None:
    cells = [cell for cell in plain_cells() if cell.operation == operation and cell.state in STATED]
    expect_nothing(swept(cells, [Plan(how, ("cancel",) * 3, (1, 1)) for how in ("ready", "beat")]))


@pytest.mark.parametrize("operation", ["block", "hold_block", "lost_block", "reenter", "aclose"])
def test_scopes_time_limits_and_losses(operation: str, expect_nothing: ExpectNothing) -> None:
    """Whoever cancels what is around a coroutine gets what he asked for, also together with a loss."""
    plans = [plan for plan in WAYS if plan.gaps in ((), (2,))]
    expect_nothing(swept([Cell(operation, "company")], plans))


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "reenter"])  # it awaits another task
def test_cancels_of_the_clients_own_tasks(operation: str, expect_nothing: ExpectNothing) -> None:
    """With verbs that are tasks: one of them, or every task there is, is cancelled at any suspension of any of them."""
    cells = [cell for cell in plain_cells() if cell.operation == operation and cell.state in STATED]
    expect_nothing(swept(cells, [Plan("inner", ("one",)), Plan("inner", ("all",))], backend=TaskBackend))


def test_with_somebody_listening(expect_nothing: ExpectNothing) -> None:
    """Every hand-off is told then, which takes another way through the engine."""
    events: list[object] = []
    cells = [cell for cell in plain_cells() if cell.state == "company" and cell.operation in ENTERING]
    expect_nothing(swept(cells, [Plan("beat")], on_event=events.append))
    assert events


if sys.version_info >= (3, 12):

    def _eager() -> BeatLoop:
        loop = BeatLoop()
        loop.set_task_factory(asyncio.eager_task_factory)
        return loop

    def test_with_eager_tasks(expect_nothing: ExpectNothing) -> None:
        """Tasks that run until their first await when they are made."""
        cells = [cell for cell in plain_cells() if cell.state == "company"]
        expect_nothing(swept(cells, [Plan("beat")], loop_factory=_eager, backend=TaskBackend))


# --- the whole matrix ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(1200)
@each_operation
def test_every_cell(operation: str, expect_nothing: ExpectNothing) -> None:
    expect_nothing(swept((cell for cell in every_cell() if cell.operation == operation), ONCE))


@pytest.mark.long
@pytest.mark.timeout(1200)
@each_operation
def test_every_cell_with_further_cancels(operation: str, expect_nothing: ExpectNothing) -> None:
    expect_nothing(swept((cell for cell in short_cells() if cell.operation == operation), REPEATED))


@pytest.mark.long
@pytest.mark.timeout(1200)
@each_operation
def test_every_cell_with_scopes_time_limits_and_losses(operation: str, expect_nothing: ExpectNothing) -> None:
    expect_nothing(swept((cell for cell in plain_cells() if cell.operation == operation), WAYS))
