"""The script that holds the core against asyncio.Lock: its laps, its weighing, its verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

import aiodlock
from benchmarks.checks import Check
from benchmarks.core import _in_own_process
from benchmarks.core_races import RACES, Proof, Race, lap, prove_entering, prove_reading, prove_running, proven


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
async def test_both_sides_of_every_race_get_round(race: Race, ours: bool) -> None:
    """Every task gets in, and nobody meets another inside."""
    result = await lap(race, ours=ours, seconds=0.05)
    assert result.per_second > 0
    assert result.violations == 0


PROOFS = (prove_entering, prove_running, prove_reading)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
async def test_a_proof_finds_nothing_wrong_with_our_locks(proof: Proof) -> None:
    async with aiodlock.connect("memory://") as locks:
        assert await proven(proof, locks) == 0


class _Open:
    """The broken twin: a client whose locks let everybody in."""

    fence = 0

    def lock(self, key: str) -> _Open:
        return self

    rwlock = lock

    def read(self) -> _Open:
        return self

    write = read

    async def run(self, section: Callable[[], None]) -> None:
        section()
        await asyncio.sleep(0)

    async def __aenter__(self) -> _Open:
        self.fence += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        pass


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
async def test_a_proof_sees_two_inside(proof: Proof) -> None:
    assert await proven(proof, cast("aiodlock.LockClient", _Open())) > 0


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
