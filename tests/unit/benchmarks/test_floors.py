"""Figures against floors: what has to be measured for them, and how they are judged."""

from __future__ import annotations

import pytest

from benchmarks.floors import TABLES, Floor, judged, plan
from benchmarks.peers import PEERS
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS
from tests.unit.benchmarks.test_summary import row


def check(results: Results, floor: Floor) -> tuple[float | None, bool]:
    (found,) = judged([floor], results)
    return found.value, found.holds


@pytest.mark.parametrize("name", TABLES)
def test_every_floor_can_be_measured(name: str) -> None:
    """Each lock that it names takes part in its scenario, and is planned for it."""
    table = TABLES[name]
    cells = {
        (scenario.name, peer.name) for scenario, peers in plan(table, table.floors, 1, None).cells for peer in peers
    }
    for floor in table.floors:
        named = [(floor.scenario, floor.peer), *((floor.over_in or floor.scenario, who) for who in floor.over)]
        locks = [(scenario, who) for scenario, who in named if who in PEERS]
        assert all(SCENARIOS[scenario].suits(PEERS[who]) for scenario, who in locks)
        assert cells.issuperset(locks)


def test_only_the_rows_asked_for_are_measured() -> None:
    floors = TABLES["redis"].rows(["U100"])
    ((scenario, peers),) = plan(TABLES["redis"], floors, 5, None).cells
    assert (scenario.name, {peer.name for peer in peers}) == ("U100", {"aiodlock-redis", "redis-py"})


def test_a_ratio_is_to_the_best_of_the_others_and_formed_within_a_round() -> None:
    speeds = {"aiodlock-redis": (1000.0, 100.0), "redis-py": (10.0, 1.0), "pottery": (20.0, 2.0)}
    results = Results(rows=[row(n, "M", who, both[n - 1]) for who, both in speeds.items() for n in (1, 2)])
    floor = Floor("M", "aiodlock-redis", over=("redis-py", "pottery", "aioredlock"), least=40)
    assert check(results, floor) == (50, True)


def test_where_less_is_better_the_best_is_the_least() -> None:
    times = {"aiodlock-zookeeper": 1500.0, "kazoo": 3000.0, "aiozk": 1000.0}
    results = Results(rows=[row(1, "W", who, time) for who, time in times.items()])
    assert check(results, Floor("W", "aiodlock-zookeeper", over=("kazoo", "aiozk"), most=1.3)) == (1.5, False)


def test_a_limit_is_told_in_the_terms_of_the_scenario() -> None:
    """400 round trips in a second are 2500 µs each; beside a rate a limit is a rate."""
    rows = [row(1, "W", "aiodlock-redis", 3000.0), row(1, "U100", "aiodlock-redis", 100.0)]
    results = Results(rows=rows, limits={1: {"round trip": 400.0}})
    assert check(results, Floor("W", "aiodlock-redis", over=("round trip",), most=1.4)) == (1.2, True)
    assert check(results, Floor("U100", "aiodlock-redis", over=("round trip",), least=0.3)) == (0.25, False)


def test_another_length_of_the_line_and_another_column_can_be_compared() -> None:
    results = Results(
        rows=[
            row(1, "G10000", "aiodlock-redis-fair", 80.0),
            row(1, "G10", "aiodlock-redis-fair", 40.0),
            row(1, "Mms", "aiodlock-redis", 1.0, wait_p99=0.3),
            row(1, "Mms", "aiodlock-redis-fair", 1.0, wait_p99=0.2),
        ]
    )
    growth = Floor("G10000", "aiodlock-redis-fair", over=("aiodlock-redis-fair",), over_in="G10", most=3)
    waits = Floor("Mms", "aiodlock-redis", "wait_p99", over=("aiodlock-redis-fair",), most=1.2)
    assert check(results, growth) == (2, True)
    assert check(results, waits) == (pytest.approx(1.5), False)


def test_one_violation_in_many_rounds_is_not_lost() -> None:
    results = Results(rows=[row(n, "M", "aiodlock-redis", 1.0, violations=n // 5) for n in range(1, 6)])
    assert check(results, Floor("M", "aiodlock-redis", "violations", most=0)) == (1, False)


def test_what_was_not_measured_does_not_hold() -> None:
    """Nor does a difference that is less than nothing; and nothing is asked of a figure that is only shown."""
    noise = Results(rows=[row(1, "W", "aiodlock-redis", -5.0), row(1, "W", "redis-py", 5.0)])
    assert check(noise, Floor("W", "aiodlock-redis", over=("redis-py",), most=1)) == (None, False)
    assert check(Results(), Floor("M", "aiodlock-redis", "commands", most=0.2)) == (None, False)
    assert check(Results(), Floor("M", "aiodlock-redis", over=("redis-py",))) == (None, True)


def test_rounds_of_a_later_run_follow_those_of_the_first() -> None:
    """A ratio is never formed between two runs, and each round keeps its own limits."""
    first = Results(rows=[row(1, "U100", "redis-py", 10.0)], limits={1: {"PING": 5.0}})
    first.add(Results(rows=[row(1, "U100", "aiodlock-redis", 100.0)], limits={1: {"PING": 7.0}}))
    assert first.column("U100", "redis-py") == {1: 10.0}
    assert first.column("U100", "aiodlock-redis") == {2: 100.0}
    assert first.limit("PING") == {1: 5.0, 2: 7.0}
    assert check(first, Floor("U100", "aiodlock-redis", over=("redis-py",), least=1)) == (None, False)
