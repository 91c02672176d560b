"""A lock that is wrong on purpose is exposed by the columns that are there for it; an honest one is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.cell import Cell, CellFailedError
from benchmarks.figures import Sample
from benchmarks.peers import PEERS
from benchmarks.scenarios import SCENARIOS

HERE = Path(sys.executable)


async def measured(peer: str, scenario: str, *, seconds: float = 0.4) -> Sample:
    return await Cell(peer=PEERS[peer], scenario=SCENARIOS[scenario], seconds=seconds, python=HERE).run()


@pytest.mark.parametrize("scenario", ["C100", "C100ms"])
async def test_an_unfair_lock_starves_the_rest_of_its_process(scenario: str) -> None:
    """One worker gets nearly everything, and the fairness columns say so."""
    sample = await measured("unfair", scenario)
    assert sample.sections > 0
    assert sample.jain is not None
    assert sample.jain < 0.2
    assert sample.starved is not None
    assert sample.starved >= 80
    assert sample.violations == 0


async def test_an_unfair_lock_starves_other_processes() -> None:
    """The slowest process gets a small part of what the favourite gets."""
    sample = await measured("unfair", "Mms", seconds=0.6)
    assert sample.sections > 0
    assert sample.slowest_to_fastest is not None
    assert sample.slowest_to_fastest < 0.3
    assert sample.violations == 0


@pytest.mark.parametrize("scenario", ["C100", "C100ms", "M", "Mms"])
async def test_an_unsafe_lock_is_caught(scenario: str) -> None:
    """Two inside at once are counted, with an empty section too, in one process and across four."""
    sample = await measured("unsafe", scenario)
    assert sample.sections > 0
    assert sample.violations is not None
    assert sample.violations > 0


@pytest.mark.parametrize("scenario", ["C100", "C100ms"])
@pytest.mark.parametrize("peer", ["asyncio", "aiodlock-memory"])
async def test_an_honest_lock_is_not_accused(peer: str, scenario: str) -> None:
    """Everybody gets a share, nobody meets another inside; in a window that a stall of the machine does not fill."""
    sample = await measured(peer, scenario, seconds=2.0)
    assert sample.sections > 0
    assert sample.jain is not None
    assert sample.jain > 0.9
    assert (sample.starved, sample.violations, sample.errors) == (0, 0, 0)


async def test_functions_run_under_the_lock_are_counted_and_watched() -> None:
    """A lock that runs plain functions takes part like any other."""
    sample = await measured("aiodlock-memory-run", "C100")
    assert sample.sections > 100
    assert (sample.starved, sample.violations, sample.errors) == (0, 0, 0)


async def test_a_lock_that_cannot_be_opened_says_why() -> None:
    """The reason a worker fails reaches whoever runs the cell."""
    cell = Cell(
        peer=PEERS["blocking-socket"], scenario=SCENARIOS["U1"], seconds=0.1, python=HERE, url="redis://127.0.0.1:1/0"
    )
    with pytest.raises(CellFailedError, match="ConnectionRefusedError"):
        await cell.run()
