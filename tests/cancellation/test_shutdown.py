"""The loop ends right after the cancelled coroutine: what was sent arrives, and no ticket of ours is left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cancellation.conftest import ExpectNothing
from tests.cancellation.matrix import ONCE, plain_cells
from tests.cancellation.operations import OPERATIONS
from tests.cancellation.sweep import Report, shut_down
from tests.cancellation.trigger import Plan
from tests.cancellation.wire import SlowBackend, TaskBackend

THRICE = Plan("beat", ("cancel",) * 3, (1, 1))
STATES = ("free", "company")


def shut(operation: str, states: tuple[str, ...], plans: list[Plan], **settings: Any) -> Report:
    report = Report()
    for cell in plain_cells():
        if cell.operation == operation and cell.state in states:
            report += shut_down(cell, plans, **settings)
    return report


@pytest.mark.parametrize("operation", OPERATIONS)
def test_main_that_closes_its_client(operation: str, expect_nothing: ExpectNothing) -> None:
    """Also with verbs that are tasks, which the end of the loop would cancel before they are sent."""
    expect_nothing(shut(operation, STATES, [THRICE], closes=True, backend=TaskBackend))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_main_that_does_not(operation: str, expect_nothing: ExpectNothing) -> None:
    """A verb that is sent where it is called is enough: leaving does not wait for anything."""
    expect_nothing(shut(operation, STATES, [THRICE], closes=False, backend=SlowBackend))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_state(operation: str, expect_nothing: ExpectNothing) -> None:
    states = OPERATIONS[operation].states
    for backend in (SlowBackend, TaskBackend):
        expect_nothing(shut(operation, states, [*ONCE, THRICE], closes=True, backend=backend))
