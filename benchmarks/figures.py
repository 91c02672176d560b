"""The numbers of one cell, and the few formulas behind them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Sample", "Spread", "jain", "quantile", "thin"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one round of one cell showed. ``value`` is in the scenario's unit; None means "does not apply here"."""

    value: float
    seconds: float
    sections: int = 0
    jain: float | None = None
    starved: int | None = None  # workers that got nothing
    slowest_to_fastest: float | None = None  # sections of the slowest process over those of the fastest
    violations: int | None = None  # sections that saw another one inside
    wait_p50: float | None = None  # seconds
    wait_p99: float | None = None
    connections: int | None = None  # as the server counts them, all processes
    commands: float | None = None  # sent by clients, per section (idle: per second)
    in_scripts: float | None = None  # run inside scripts, per section (idle: per second)
    server_us: float | None = None  # microseconds the server spent in scripts, per section
    cpu_us: float | None = None  # microseconds of client CPU per section
    errors: int = 0
    first_error: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of several rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def jain(counts: Sequence[int]) -> float:
    """Return Jain's fairness index: 1 when all got the same, 1/n when one got everything."""
    total = sum(counts)
    return total * total / (len(counts) * sum(count * count for count in counts)) if total else 0.0


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which *share* of the values lie, or None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def thin(values: Sequence[float], most: int) -> list[float]:
    """Return at most *most* of the values, evenly picked: enough for quantiles, small enough to send."""
    return list(values[:: max(1, -(-len(values) // most))])
