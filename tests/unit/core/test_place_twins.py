"""Broken twins of what the client believes of a ticket: each leaves out one rule, and the test beside it must fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from aiodlock._core.fence import split
from aiodlock._core.line import Answer, Called, Inside
from aiodlock._core.place import Place
from aiodlock.errors import BackendError
from tests.fuzz.twins import handed_on_after_leaving
from tests.unit.core import test_place
from tests.unit.core.twins import Break, fails, set_to


def _believe(change: Callable[[Place, Called], Called]) -> Break:
    called = Place.called
    return set_to(Place, "called", lambda self, call: called(self, change(self, call)))


def _as_if_answered(place: Place, call: Called) -> Called:
    if not place.answered:
        place.via, place.believed_at = call.via, place.engine.now()
    return call


def _leave_once(patch: pytest.MonkeyPatch) -> None:
    joining = Place.joining

    def stand(self: Place, verb: Awaitable[Answer], sent_at: float) -> None:
        joining(self, verb, sent_at)
        self.instead_of = None

    patch.setattr(Place, "joining", stand)


def _join_anew(patch: pytest.MonkeyPatch) -> None:
    joining = Place.joining

    def join(self: Place, verb: Awaitable[Answer], sent_at: float) -> None:
        self.joined_at = sent_at
        joining(self, verb, sent_at)

    patch.setattr(Place, "joining", join)


def _hear_of_no_failure(patch: pytest.MonkeyPatch) -> None:
    joined = Place._joined

    def hear(self: Place, answer: Answer | BackendError) -> None:
        if not isinstance(answer, BackendError):
            self.pauses = 0
        joined(self, answer)

    patch.setattr(Place, "_joined", hear)


def _any_answer_counts(patch: pytest.MonkeyPatch) -> None:
    stay = Place._stay

    def move(self: Place, deadline: float, answer: Inside) -> None:
        self.deadline = deadline
        stay(self, deadline, answer)

    patch.setattr(Place, "_stay", move)


def _silence_is_consent(patch: pytest.MonkeyPatch) -> None:
    renewed = Place.renewed

    def assume(self: Place, sent_at: float, knew_inside: bool, answer: Any) -> None:
        consent = Inside(split(self.fence)[0], self.ticket.ttl)
        renewed(self, sent_at, knew_inside, consent if isinstance(answer, BackendError) else answer)

    patch.setattr(Place, "renewed", assume)


TWINS: dict[str, tuple[Break, Callable[..., Any]]] = {
    "any answer to a join counts from its last send": (
        _join_anew,
        test_place.test_validity_counts_from_before_the_send,
    ),
    "an outage is a slow grant": (_hear_of_no_failure, test_place.test_an_outage_is_no_part_of_a_grant),
    "a call of any connection counts": (
        _believe(lambda place, call: replace(call, via=place.via)),
        test_place.test_a_call_of_an_old_connection_means_look,
    ),
    "a call of any epoch counts": (
        _believe(lambda place, call: replace(call, epoch=max(call.epoch, place.last + 1))),
        test_place.test_a_call_not_above_the_last_epoch_means_look,
    ),
    "a call counts before any answer": (
        _believe(_as_if_answered),
        test_place.test_a_call_before_the_answer_of_its_own_join_means_look,
    ),
    "the end of a batch is repeated in half": (
        _leave_once,
        test_place.test_a_batch_ended_in_doubt_is_repeated_whole,
    ),
    "a batch goes on after its end": (
        set_to(*handed_on_after_leaving()),
        test_place.test_a_batch_whose_end_has_no_answer_is_over,
    ),
    "the last answer counts, not the latest": (_any_answer_counts, test_place.test_a_late_answer_shortens_nothing),
    "a renewal counts without an answer": (
        _silence_is_consent,
        test_place.test_a_renewal_without_an_answer_moves_no_deadline,
    ),
}


@pytest.mark.parametrize(("twin", "test"), TWINS.values(), ids=TWINS.keys())
async def test_a_twin_is_caught(
    stage: dict[str, object], monkeypatch: pytest.MonkeyPatch, twin: Break, test: Callable[..., Any]
) -> None:
    """The very test that passes on `Place` fails on its twin."""
    twin(monkeypatch)
    await fails(test, stage)
