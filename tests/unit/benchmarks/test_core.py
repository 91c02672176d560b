"""The script that holds the core against asyncio.Lock: its laps, its weighing, its verdicts."""

from __future__ import annotations

import pytest

from benchmarks.checks import Check
from benchmarks.core import _in_own_process
from benchmarks.core_races import RACES, Race, lap


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
async def test_both_sides_of_every_race_get_round(race: Race, ours: bool) -> None:
    """Every task gets in, and nobody meets another inside."""
    result = await lap(race, ours=ours, seconds=0.05)
    assert result.per_second > 0
    assert result.violations == 0


def test_parked_waiters_are_weighed_above_the_callers_own_task() -> None:
    facts = _in_own_process("parked", 2_000, 0.1)
    assert 0 < facts["bytes"] < 5_000
    assert facts["tasks"] < 100


def test_held_locks_are_counted() -> None:
    facts = _in_own_process("held", 200, 0.1)
    assert facts["lost"] == 0
    assert facts["tasks_of_one"] <= facts["tasks"] < 100


def test_a_missed_floor_does_not_hold() -> None:
    assert Check("ratio", 0.95, least=0.9).holds
    assert not Check("ratio", 0.85, least=0.9).holds
    assert Check("bytes", 840, most=1024).holds
    assert not Check("bytes", 1025, most=1024).holds
    assert Check("shown only", 12.0).holds
    assert not Check("not measured", None, least=0.0).holds
