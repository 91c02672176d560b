"""The recorder, and what its events are read back as."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from aiodlock.testing.history import (
    UNKNOWN,
    Event,
    JsonLines,
    Operation,
    Recorder,
    Stay,
    operation,
    operations,
    read,
    stays,
)


def recorder(who: str = "w-1") -> tuple[Recorder, list[Event]]:
    """Return a recorder whose clock moves by one with every look at it."""
    events: list[Event] = []
    return Recorder(events.append, who=who, now=itertools.count(1).__next__), events


def test_lines_are_read_back_as_they_were_recorded(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "events")
    record = Recorder(lines, who="wörker")
    written = [record("inside", key="k", fence=1 << 62, nested=[1, {"a": None}]), record("left", note="a\nb")]
    lines.close()
    assert read(tmp_path / "events") == written
    assert written[0].at < written[1].at


def test_a_line_torn_by_a_kill_is_left_out(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "events")
    whole = Recorder(lines, who="w")("inside")
    lines.close()
    with (tmp_path / "events").open("ab") as file:
        file.write(b'{"at": 1.0, "who": "w", "wh')
    assert read(tmp_path / "events") == [whole]


def test_a_torn_line_elsewhere_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"at": 1.0, "wh\n')
    with pytest.raises(ValueError, match="Unterminated"):
        read(tmp_path / "events")


# --- stays -------------------------------------------------------------------------------------------------


def enter(record: Recorder, number: int = 1, *, valid_until: float = 100.0, weight: int = 1) -> None:
    record("inside", key="k", id=number, asked=0.5, valid_until=valid_until, fence=7, weight=weight)


def expect(start: float, end: float, *, number: int = 1, weight: int = 1) -> Stay:
    return Stay(key="k", id=number, who="w-1", asked=0.5, start=start, end=end, weight=weight, fence=7)


def test_a_stay_ends_when_it_is_left() -> None:
    record, events = recorder()
    enter(record)
    record("left", key="k", id=1)
    assert stays(events) == [expect(1, 2)]


def test_a_stay_never_left_ends_by_its_validity() -> None:
    """Its worker was killed."""
    record, events = recorder()
    enter(record, valid_until=50)
    assert stays(events) == [expect(1, 50)]


def test_a_stay_left_late_ended_by_its_validity() -> None:
    """Its worker was frozen."""
    record, events = recorder()
    enter(record, valid_until=1.5)
    record("left", key="k", id=1)
    assert stays(events) == [expect(1, 1.5)]


def test_renewals_prolong_and_never_shorten() -> None:
    record, events = recorder()
    enter(record, valid_until=10)
    record("renewed", key="k", id=1, valid_until=20)
    record("renewed", key="k", id=1, valid_until=15)
    record("renewed", key="k", id=2, valid_until=99)
    assert stays(events) == [expect(1, 20)]


def test_a_downgrade_is_two_stays_of_one_ownership() -> None:
    record, events = recorder()
    enter(record, weight=1 << 30)
    enter(record)
    record("left", key="k", id=1)
    assert stays(events) == [expect(1, 2, weight=1 << 30), expect(2, 3)]


def test_an_answer_that_came_too_late_was_never_believed() -> None:
    record, events = recorder()
    enter(record, valid_until=0.9)
    (stay,) = stays(events)
    assert not stay.believed


def test_workers_with_the_same_ids_are_told_apart() -> None:
    first, events = recorder("w-1")
    enter(first)
    second, others = recorder("w-2")
    enter(second)
    second("left", key="k", id=1)
    assert {(stay.who, stay.end) for stay in stays(events + others)} == {("w-1", 100), ("w-2", 2)}


# --- operations --------------------------------------------------------------------------------------------


def test_an_operation_is_its_call_and_its_return() -> None:
    record, events = recorder()
    with operation(record, "sku", "take", [1, {"b": 2, "a": [3]}]) as outcome:
        outcome.result = True
    assert operations(events) == [Operation("sku", "w-1", "take", 1, (1, (("a", (3,)), ("b", 2))), True, 2)]


def test_an_operation_that_raised_has_an_unknown_outcome() -> None:
    record, events = recorder()
    with pytest.raises(ConnectionResetError), operation(record, "sku", "take", 1):
        raise ConnectionResetError
    (unknown,) = operations(events)
    assert (unknown.result, unknown.returned, unknown.known) == (UNKNOWN, math.inf, False)
    assert repr(UNKNOWN) == "UNKNOWN"


def test_operations_under_way_at_the_same_time_are_not_mixed_up() -> None:
    record, events = recorder()
    with operation(record, "k", "add", 1) as outer:
        with operation(record, "k", "add", 2) as inner:
            inner.result = 2
        outer.result = 3
    assert [(op.argument, op.result, op.called, op.returned) for op in operations(events)] == [
        (1, 3, 1, 4),
        (2, 2, 2, 3),
    ]
