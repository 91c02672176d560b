"""The summary as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from benchmarks.figures import Sample, Spread
from benchmarks.scenarios import SCENARIOS
from benchmarks.summary import Line

__all__ = ["number", "table", "tables"]

_COLUMNS: Sequence[tuple[str, Callable[[Line, Sample], str]]] = (
    ("value", lambda line, _: _spread(line.value)),
    ("x baseline", lambda line, _: _spread(line.to_baseline)),
    ("x best rival", lambda line, _: _spread(line.to_best_rival)),
    ("of limit", lambda line, _: _spread(line.of_limit)),
    ("Jain", lambda _, middle: _fixed(middle.jain, 3)),
    ("starved", lambda _, middle: number(middle.starved)),
    ("slow/fast", lambda _, middle: _fixed(middle.slowest_to_fastest, 2)),
    ("violations", lambda _, middle: number(middle.violations)),
    ("p50 ms", lambda _, middle: number(_milli(middle.wait_p50))),
    ("p99 ms", lambda _, middle: number(_milli(middle.wait_p99))),
    ("conns", lambda _, middle: number(middle.connections)),
    ("commands", lambda _, middle: number(middle.commands)),
    ("in Lua", lambda _, middle: number(middle.in_scripts)),
    ("CPU µs", lambda _, middle: number(middle.cpu_us)),
    ("errors", lambda _, middle: number(middle.errors)),
)


def tables(lines: Sequence[Line], baseline: str) -> str:
    """Return one table for each scenario."""
    parts = []
    for name, group in groupby(lines, key=lambda line: line.scenario):
        scenario, members = SCENARIOS[name], list(group)
        head = f"{name}: {scenario.question} ({scenario.unit}; baseline {baseline}"
        rival = members[0].best_rival
        head += (
            (f", best rival {rival}" if rival else "") + (f", limit {scenario.limit}" if scenario.limit else "") + ")"
        )
        parts.append(
            "\n".join([head, table(["", *(title for title, _ in _COLUMNS)], [_cells(line) for line in members])])
        )
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned text; columns in which nobody has anything are left out."""
    used = [
        place
        for place in range(len(head))
        if place == 0 or any(row[place : place + 1] not in ([], ["-"]) for row in rows)
    ]
    everything = [head, *rows]
    widths = [max(len(row[place]) if place < len(row) else 0 for row in everything) for place in range(len(head))]
    return "\n".join(_aligned(row, used, widths) for row in everything)


def number(value: float | None) -> str:
    """Return a number with three significant digits, large ones in thousands."""
    if value is None:
        return "-"
    if value >= 10_000:
        return f"{value / 1000:,.0f}k" if value >= 100_000 else f"{value / 1000:.1f}k"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.3g}"


def _cells(line: Line) -> list[str]:
    if line.middle is None:
        return [line.peer, f"failed: {line.failures[0]}"]
    cells = [line.peer, *(show(line, line.middle) for _, show in _COLUMNS)]
    if line.failures:
        cells[0] += f" ({len(line.failures)} of {line.rounds + len(line.failures)} rounds failed: {line.failures[0]})"
    return cells


def _aligned(row: Sequence[str], used: Sequence[int], widths: Sequence[int]) -> str:
    if len(row) == 2 and row[1].startswith("failed"):
        return f"  {row[0]:<{widths[0]}}  {row[1]}"
    return "  " + "  ".join(f"{row[place]:{'<' if place == 0 else '>'}{widths[place]}}" for place in used)


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if spread.least == spread.most:
        return number(spread.median)
    return f"{number(spread.median)} [{number(spread.least)}-{number(spread.most)}]"


def _fixed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _milli(value: float | None) -> float | None:
    return None if value is None else value * 1000
