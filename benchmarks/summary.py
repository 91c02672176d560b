"""Rounds into one line per cell: median and spread, and the ratios that survive a noisy machine.

A ratio is formed within each round, between cells that ran in the same minutes; then the median of the ratios is taken.
It is always "so many times better", also where less is better.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from benchmarks.figures import Sample, Spread
from benchmarks.matrix import Results, Row
from benchmarks.peers import PEERS, Role
from benchmarks.scenarios import SCENARIOS, Scenario

__all__ = ["Line", "summarise"]

_ADDED_UP = frozenset({"sections", "violations", "errors"})


@dataclass(frozen=True, slots=True)
class Line:
    """One lock in one scenario, over all rounds."""

    scenario: str
    peer: str
    unit: str
    rounds: int
    value: Spread | None  # None: no round got through
    middle: Sample | None  # medians of all columns; sections, violations and errors added up
    to_baseline: Spread | None = None
    to_best_rival: Spread | None = None
    best_rival: str = ""
    of_limit: Spread | None = None
    limit: str = ""
    failures: tuple[str, ...] = ()


def summarise(results: Results, baseline: str) -> list[Line]:
    """Return a line for every cell that was tried, in the order of scenarios and peers."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in results.rows:
        cells.setdefault((row.scenario, row.peer), []).append(row)
    order = {name: place for place, name in enumerate([*SCENARIOS, *PEERS])}
    return [
        _line(results, rows, baseline)
        for _, rows in sorted(cells.items(), key=lambda item: (order[item[0][0]], order[item[0][1]]))
    ]


def _line(results: Results, rows: Sequence[Row], baseline: str) -> Line:
    scenario, peer = SCENARIOS[rows[0].scenario], rows[0].peer
    samples = [row.sample for row in rows if row.sample]
    values = _values(results, scenario.name, peer)
    rival = _best_rival(results, scenario)
    limit = scenario.limit or ""
    bounds = _values(results, scenario.name, limit) or _limit_values(results, limit)
    return Line(
        scenario=scenario.name,
        peer=peer,
        unit=scenario.unit,
        rounds=len(samples),
        value=Spread.of(list(values.values())) if values else None,
        middle=_middle(samples),
        to_baseline=_ratio(scenario, values, _values(results, scenario.name, baseline)),
        to_best_rival=_ratio(scenario, values, _values(results, scenario.name, rival)),
        best_rival=rival,
        of_limit=_ratio(scenario, values, bounds),
        limit=limit,
        failures=tuple(row.failure for row in rows if row.failure),
    )


def _values(results: Results, scenario: str, peer: str) -> dict[int, float]:
    return {
        row.round: row.sample.value
        for row in results.rows
        if row.sample and row.scenario == scenario and row.peer == peer
    }


def _limit_values(results: Results, name: str) -> dict[int, float]:
    return {number: rates[name] for number, rates in enumerate(results.limits, start=1) if name in rates}


def _best_rival(results: Results, scenario: Scenario) -> str:
    medians = {
        peer.name: statistics.median(values.values())
        for peer in PEERS.values()
        if peer.role is Role.RIVAL and (values := _values(results, scenario.name, peer.name))
    }
    best = max if scenario.more_is_better else min
    return best(medians, key=lambda name: medians[name], default="") if scenario.compares else ""


def _ratio(scenario: Scenario, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Spread | None:
    """Return how many times better *ours* is, round by round."""
    pairs = [(ours[number], theirs[number]) for number in ours.keys() & theirs.keys() if scenario.compares]
    if not scenario.more_is_better:
        pairs = [(other, own) for own, other in pairs]
    ratios = [above / below for above, below in pairs if below]
    return Spread.of(ratios) if ratios else None


def _middle(samples: Sequence[Sample]) -> Sample | None:
    if not samples:
        return None
    columns: dict[str, list[Any]] = {
        spec.name: [getattr(sample, spec.name) for sample in samples] for spec in fields(Sample)
    }
    errors = columns.pop("first_error")
    merged: dict[str, Any] = {name: _merged(name, values) for name, values in columns.items()}
    return Sample(**merged, first_error=next((error for error in errors if error), ""))


def _merged(name: str, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if name in _ADDED_UP else statistics.median(known)
