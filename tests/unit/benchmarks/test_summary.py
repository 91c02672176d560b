"""Rounds become one line per cell; ratios are formed within a round."""

from __future__ import annotations

from benchmarks.figures import Sample
from benchmarks.report import tables
from benchmarks.results import Results, Row
from benchmarks.summary import Line, summarise


def row(number: int, scenario: str, peer: str, value: float, **columns: float) -> Row:
    return Row(number, scenario, peer, sample=Sample(value=value, seconds=1.0, **columns))  # type: ignore[arg-type]


def only(lines: list[Line], peer: str) -> Line:
    (line,) = (line for line in lines if line.peer == peer)
    return line


def test_a_ratio_survives_rounds_of_different_speed() -> None:
    """Twice the baseline in a quick minute and in a slow one is 2, whatever the medians are."""
    rounds = [(1, 100.0), (2, 10.0), (3, 1000.0)]
    results = Results(
        rows=[row(number, "C100", "redis-py", speed) for number, speed in rounds]
        + [row(number, "C100", "aiodlock-redis", 2 * speed) for number, speed in rounds]
        + [row(number, "C100", "asyncio", 4 * speed) for number, speed in rounds]
    )
    line = only(summarise(results, "redis-py"), "aiodlock-redis")
    assert line.to_baseline is not None
    assert (line.to_baseline.least, line.to_baseline.median, line.to_baseline.most) == (2, 2, 2)
    assert line.of_limit is not None
    assert line.of_limit.median == 0.5


def test_less_is_better_for_a_wake_up() -> None:
    """A tenth of the baseline's time counts as ten times better."""
    results = Results(rows=[row(1, "W", "redis-py", 50_000.0), row(1, "W", "aiodlock-redis", 5_000.0)])
    line = only(summarise(results, "redis-py"), "aiodlock-redis")
    assert line.to_baseline is not None
    assert line.to_baseline.median == 10


def test_the_best_rival_is_neither_ours_nor_a_limit() -> None:
    speeds = {"redis-py": 10.0, "pottery": 30.0, "aiodlock-redis": 900.0, "asyncio": 9000.0, "unsafe": 5000.0}
    results = Results(rows=[row(1, "C100", peer, speed) for peer, speed in speeds.items()])
    line = only(summarise(results, "redis-py"), "aiodlock-redis")
    assert line.best_rival == "pottery"
    assert line.to_best_rival is not None
    assert line.to_best_rival.median == 30


def test_violations_and_errors_of_all_rounds_add_up() -> None:
    """One bad round is not lost in a median."""
    results = Results(
        rows=[row(number, "M", "redis-py", 1.0, violations=number // 3, errors=1) for number in (1, 2, 3)]
    )
    middle = only(summarise(results, "redis-py"), "redis-py").middle
    assert middle is not None
    assert (middle.violations, middle.errors) == (1, 3)


def test_a_failed_round_is_told_and_the_others_count() -> None:
    results = Results(rows=[row(1, "C100", "pottery", 7.0), Row(2, "C100", "pottery", failure="no answer")])
    lines = summarise(results, "pottery")
    assert lines[0].value is not None
    assert lines[0].value.median == 7
    assert "pottery: 1 of 2 rounds failed: no answer" in tables(lines, "pottery")


def test_limits_of_the_machine_bound_scenarios_without_a_bounding_lock() -> None:
    results = Results(rows=[row(1, "U100", "redis-py", 50.0)], limits={1: {"own scripts -P 64": 200.0}})
    line = only(summarise(results, "redis-py"), "redis-py")
    assert line.of_limit is not None
    assert line.of_limit.median == 0.25
