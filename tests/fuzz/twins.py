"""Broken twins of the engine: each leaves out one rule of the protocol, and the fuzz has to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any
from unittest.mock import patch

from aiodlock._core.cohort import Cohort
from aiodlock._core.engine import Engine
from aiodlock._core.line import Answer, Call, Called, Waiting
from aiodlock._core.place import INSIDE, WAITING, Place

Change = tuple[Any, str, Any]  # of which class or module, the name, and what it becomes


def no_burying() -> Change:
    """Leaving never leaves a tombstone."""

    def send_leave(self: Place) -> None:
        self.engine.work.own(self.engine.backend.leave(self.ticket, bury=False), self._left)

    return Place, "_send_leave", send_leave


def same_id_again() -> Change:
    """A ticket that is gone stands again by the same id."""
    stand = Cohort._stand
    first_ids: dict[tuple[Engine, object], Any] = {}

    def stand_as_before(self: Cohort, instead_of: Place | None = None, failed: Place | None = None) -> None:
        engine, new_id = self.engine, self.engine.new_id
        first = first_ids.setdefault((engine, self.line), new_id())
        if first not in engine.places:
            engine.new_id = lambda: first
        try:
            stand(self, instead_of, failed)
        finally:
            engine.new_id = new_id

    return Cohort, "_stand", stand_as_before


def waiting_moves_back() -> Change:
    """A late answer that we wait is believed although we are inside."""
    hear = Place._hear

    def hear_all(self: Place, sent_at: float, now: float, answer: Answer) -> None:
        if isinstance(answer, Waiting) and self.state is INSIDE:
            self.state = WAITING
        hear(self, sent_at, now, answer)

    return Place, "_hear", hear_all


def counted_from_answer() -> Change:
    """A life is counted from when its answer came, not from before it was asked for."""
    hear = Place._hear
    return Place, "_hear", lambda self, _sent_at, now, answer: hear(self, now, now, answer)


def handed_on_after_leaving() -> Change:
    """When leave-and-stand was sent, the old ticket is handed on once more."""
    stand = Cohort._stand

    def stand_and_hand_on(self: Cohort, *, instead_of: Place | None = None, failed: Place | None = None) -> None:
        stand(self, instead_of=instead_of, failed=failed)
        if instead_of is not None and (waiter := self.next_waiter()) is not None:
            waiter.set_result(self._hold(self, instead_of, self.engine.now()))

    return Cohort, "_stand", stand_and_hand_on


def call_for_nobody() -> Change:
    """A call that nobody here waits for is not answered."""
    on_call = Engine.on_call

    def on_known_call(self: Engine, call: Call) -> None:
        if not isinstance(call, Called) or call.id in self.places:
            on_call(self, call)

    return Engine, "on_call", on_known_call


# With the number of seeds within which each is found. An unanswered call shows seldom: only the long tier looks for it.
# A stale call is not among them: it is about a ticket that the server let in and then forgot. Nothing is promised to
# such a hold, so no history can tell who believed it rightly (tests/unit/core/test_place_twins.py).
TWINS = {
    no_burying: 300,
    same_id_again: 300,
    waiting_moves_back: 800,
    counted_from_answer: 300,
    handed_on_after_leaving: 300,
}
RARE_TWINS = {call_for_nobody: 5_000}


@contextmanager
def broken(twin: Callable[[], Change]) -> Iterator[None]:
    """Play with this twin in place of the engine."""
    owner, name, changed = twin()
    if callable(changed):  # one that cannot even be called would be found for the wrong reason
        assert len(signature(changed).parameters) == len(signature(getattr(owner, name)).parameters), twin.__name__
    with patch.object(owner, name, changed):
        yield
