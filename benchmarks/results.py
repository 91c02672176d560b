"""What was measured: a row for each round of each cell, and the limits of each round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from benchmarks.figures import Sample

__all__ = ["Results", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One round of one cell: a sample, or why there is none."""

    round: int
    scenario: str
    peer: str
    sample: Sample | None = None
    failure: str = ""
    others: float | None = None  # cores that others used meanwhile


@dataclass(slots=True)
class Results:
    """One run, or several one after the other: their rounds are numbered on, so that no ratio is formed across runs."""

    rows: list[Row] = field(default_factory=list)
    limits: dict[int, dict[str, float]] = field(default_factory=dict)  # by round
    missing: dict[str, str] = field(default_factory=dict)  # peers that could not be installed, and why
    server_version: str = ""

    def add(self, later: Results) -> None:
        """Have the rounds of a later run follow."""
        after = max((*self.limits, *(row.round for row in self.rows)), default=0)
        self.rows += [replace(row, round=after + row.round) for row in later.rows]
        self.limits |= {after + number: rates for number, rates in later.limits.items()}
        self.missing |= later.missing
        self.server_version = later.server_version or self.server_version

    def column(self, scenario: str, peer: str, column: str = "value") -> dict[int, float]:
        """Return one column of one cell, by round; of rounds that got through and have it."""
        found = {
            row.round: getattr(row.sample, column)
            for row in self.rows
            if row.sample and row.scenario == scenario and row.peer == peer
        }
        return {number: value for number, value in found.items() if value is not None}

    def limit(self, name: str) -> Mapping[int, float]:
        """Return how often per second the machine does what the limit of that name does, by round."""
        return {number: rates[name] for number, rates in self.limits.items() if name in rates}
