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
from benchmarks.peers import PEERS, Role
from benchmarks.results import Results, Row
from benchmarks.scenarios import SCENARIOS, Scenario

__all__ = ["Line", "best", "merged", "summarise"]

_ADDED_UP = frozenset({"sections", "violations", "errors"})
_RIVALS = [peer.name for peer in PEERS.values() if peer.role is Role.RIVAL]


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
    values = results.column(scenario.name, peer)
    rival = best(results, scenario, _RIVALS) if scenario.compares else ""
    limit = scenario.limit or ""
    bounds = results.column(scenario.name, limit) or results.limit(limit)
    return Line(
        scenario=scenario.name,
        peer=peer,
        unit=scenario.unit,
        rounds=len(samples),
        value=Spread.of(list(values.values())) if values else None,
        middle=_middle(samples),
        to_baseline=_ratio(scenario, values, results.column(scenario.name, baseline)),
        to_best_rival=_ratio(scenario, values, results.column(scenario.name, rival)),
        best_rival=rival,
        of_limit=_ratio(scenario, values, bounds),
        limit=limit,
        failures=tuple(row.failure for row in rows if row.failure),
    )


def best(results: Results, scenario: Scenario, peers: Iterable[str]) -> str:
    """Return who of *peers* has the best median, or nothing if nobody was measured."""
    medians = {
        peer: statistics.median(values.values()) for peer in peers if (values := results.column(scenario.name, peer))
    }
    choose = max if scenario.more_is_better else min
    return choose(medians, key=lambda name: medians[name], default="")


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
    numbers: dict[str, Any] = {name: merged(name, values) for name, values in columns.items()}
    return Sample(**numbers, first_error=next((error for error in errors if error), ""))


def merged(name: str, values: Iterable[float | None]) -> float | None:
    """Return the median of a column, or the sum where one bad round must not be lost in it."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if name in _ADDED_UP else statistics.median(known)
