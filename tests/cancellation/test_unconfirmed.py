"""The sweep where grants need a confirmation: half of the joins have none, and no call is trusted."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from aiodlock._core.cohort import Cohort
from aiodlock._core.line import Answer, Gone, GoneWhy, Ticket, TicketId
from aiodlock._core.place import Place
from tests.cancellation.conftest import Expect, ExpectNothing
from tests.cancellation.sweep import Cell, Report, sweep
from tests.cancellation.trigger import Plan
from tests.cancellation.wire import SlowBackend

CELLS = [
    *(Cell(operation, state) for operation in ("block", "acquire_with_limit") for state in ("free", "company")),
    Cell("try_acquire", "free"),
    Cell("run", "company"),
    Cell("block", "company", kind="read"),
]


class Doubtful(SlowBackend):
    """Every second join is done, and not confirmed."""

    capabilities = replace(SlowBackend.capabilities, trusts_calls=False)

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._turns = itertools.cycle([True, False])

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        is_doubtful = next(self._turns)

        def act() -> Answer:
            answer = self.server.join(ticket, self, queue=queue, instead_of=instead_of)
            return Gone(GoneWhy.UNCONFIRMED) if is_doubtful and not isinstance(answer, Gone) else answer

        return self._ask("join", act)


def swept() -> Report:
    report = Report()
    for cell in CELLS:
        report += sweep(cell, [Plan("beat"), Plan("ready")], backend=Doubtful)
    return report


def test_a_cancel_at_any_point_leaves_no_unconfirmed_ticket(expect_nothing: ExpectNothing) -> None:
    expect_nothing(swept())


def test_an_unconfirmed_ticket_that_is_not_left_is_found(expect: Expect, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""

    def forget(self: Cohort, place: Place) -> None:
        self.standing.pop(place, None)
        place.end()
        self.balance()

    monkeypatch.setattr(Cohort, "unconfirmed", forget)
    expect(swept(), "orphan")
