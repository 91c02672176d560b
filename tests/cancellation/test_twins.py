"""The sweep finds what is wrong: with locks as they are often written, and with ours when one thing in it is broken."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.cancellation import twins
from tests.cancellation.conftest import Expect
from tests.cancellation.kinds import KINDS, Kind
from tests.cancellation.matrix import ONCE
from tests.cancellation.mutations import MUTATIONS
from tests.cancellation.sweep import Cell, Report, shut_down, sweep
from tests.cancellation.trigger import Plan
from tests.cancellation.wire import TaskBackend

SetTwin = Callable[[type[twins.NaiveLock]], None]

PLANS = [*ONCE, *(Plan(how, ("cancel",) * 3, (1, 1)) for how in ("pending", "ready"))]


@pytest.fixture
def set_twin(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[twins.NaiveLock]], None]:
    """Have another lock class in the place of ours."""
    return lambda twin: monkeypatch.setitem(KINDS, "twin", Kind(twin, KINDS["lock"].theirs))


def sweep_twin(*states: str) -> Report:
    report = Report()
    for state in states:
        report += sweep(Cell("block", state, kind="twin"), PLANS, backend=TaskBackend)
    return report


def test_a_naive_lock_leaves_orphans(set_twin: SetTwin, expect: Expect) -> None:
    set_twin(twins.NaiveLock)
    report = sweep_twin("free", "elsewhere")
    expect(report, "orphan")
    assert report.count("orphan") > report.points / 10


def test_a_naive_lock_leaves_orphans_when_the_loop_ends(set_twin: SetTwin, expect: Expect) -> None:
    set_twin(twins.NaiveLock)
    expect(shut_down(Cell("block", "free", kind="twin"), PLANS, closes=True, backend=TaskBackend), "orphan")


def test_a_shielding_lock_leaves_orphans_when_an_answer_is_lost(set_twin: SetTwin, expect: Expect) -> None:
    set_twin(twins.ShieldingLock)
    expect(sweep_twin("join unanswered"), "orphan")


def test_a_stubborn_lock_swallows_cancels(set_twin: SetTwin, expect: Expect) -> None:
    set_twin(twins.StubbornLock)
    expect(sweep_twin("free"), "swallowed")


def test_wait_for_swallows_cancels_on_old_pythons(set_twin: SetTwin, expect: Expect) -> None:
    set_twin(twins.HastyLock)
    report = sweep_twin("free")
    if sys.version_info < (3, 12):
        expect(report, "swallowed")
    else:
        assert not report.count("swallowed")


@pytest.mark.filterwarnings("ignore:a hold of:ResourceWarning")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_engine_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, expect: Expect) -> None:
    mutation = MUTATIONS[name]
    mutation.breaks(monkeypatch)
    backend = {"backend": TaskBackend} if mutation.plans[0].how == "inner" else {}
    report = sweep(mutation.cell, mutation.plans, **backend)
    expect(report, mutation.shows)
    mistakes = [fault for fault in report.faults if "AttributeError" in fault or "TypeError" in fault]
    assert not mistakes, "the mutation itself is out of date"
