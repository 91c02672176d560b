"""Seeds of hostile weather: simulated processes, a bad network, freezes and deaths, judged by their history.

``python -m tests.fuzz SEED`` prints the trace of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fuzz.twins import RARE_TWINS, TWINS, broken
from tests.fuzz.world import play

SEEDS, CHUNK = 1_000, 100
MANY_SEEDS, LARGE_CHUNK = 100_000, 1_000


def _violations(seeds: range) -> tuple[list[str], int]:
    verdicts = [play(seed) for seed in seeds]
    return [str(verdict) for verdict in verdicts if verdict.violations], sum(v.witness.sections for v in verdicts)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_rule(first: int) -> None:
    """Nobody beside a holder, fences grow, no orphan, nobody stuck, nothing kept."""
    found, sections = _violations(range(first, first + CHUNK))
    assert not found, found[0]
    assert sections > CHUNK, "hardly anybody got in: the weather is too bad to tell anything"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(SEEDS, MANY_SEEDS, LARGE_CHUNK))
def test_no_seed_of_many_breaks_a_rule(first: int) -> None:
    found, _ = _violations(range(first, first + LARGE_CHUNK))
    assert not found, found[0]


@pytest.mark.parametrize("seed", [2977, 5532, 25329, 31349])
def test_a_seed_that_broke_a_rule_once_does_not_again(seed: int) -> None:
    """Found among a hundred thousand: lost readers at a reconnect, a release while closing, a late join."""
    assert not play(seed).violations


def test_a_seed_tells_the_same_story_twice() -> None:
    """A failure found once can be looked at as often as needed."""
    for seed in range(20):
        assert str(play(seed)) == str(play(seed))


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_broken_engine_is_found(twin: Callable[[], Any]) -> None:
    """Each twin leaves out one rule of the protocol."""
    with broken(twin):
        assert any(play(seed).violations for seed in range(TWINS[twin]))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("twin", RARE_TWINS, ids=lambda twin: twin.__name__)
def test_a_broken_engine_that_errs_seldom_is_found(twin: Callable[[], Any]) -> None:
    with broken(twin):
        assert any(play(seed).violations for seed in range(RARE_TWINS[twin]))
