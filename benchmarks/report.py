"""The summary as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from benchmarks.figures import Sample, Spread
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.summary import Line

__all__ = ["limits_table", "number", "table", "tables"]

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
    groups = groupby(lines, key=lambda line: line.scenario)
    return "\n\n".join(_table_of(SCENARIOS[name], list(group), baseline) for name, group in groups)


def _table_of(scenario: Scenario, lines: Sequence[Line], baseline: str) -> str:
    terms = [scenario.unit, f"baseline {baseline}"]
    terms += [f"best rival {lines[0].best_rival}"] if lines[0].best_rival else []
    terms += [f"limit {scenario.limit}"] if scenario.limit else []
    rows = [_cells(line, line.middle) for line in lines if line.middle]
    notes = [f"  {line.peer}: {note}" for line in lines for note in _notes(line)]
    head = f"{scenario.name}: {scenario.question} ({', '.join(terms)})"
    return "\n".join([head, table(["", *(title for title, _ in _COLUMNS)], rows), *notes])


def limits_table(rounds: Sequence[Mapping[str, float]]) -> str:
    """Return what the machine allows, as rates and as times."""
    spreads = {name: Spread.of([rates[name] for rates in rounds]) for name in rounds[0]}
    rows = [[name, _spread(spread), number(1e6 / spread.median)] for name, spread in spreads.items()]
    return "\n".join(["limits", table(["", "per second", "µs each"], rows)])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned text; columns in which nobody has anything are left out."""
    used = [place for place in range(len(head)) if place == 0 or any(row[place] != "-" for row in rows)]
    widths = {place: max(len(row[place]) for row in [head, *rows]) for place in used}
    return "\n".join(_aligned(row, widths) for row in [head, *rows])


def number(value: float | None) -> str:
    """Return a number with three significant digits, large ones in thousands."""
    if value is None:
        return "-"
    if value >= 10_000:
        return f"{value / 1000:,.0f}k" if value >= 100_000 or value % 1000 == 0 else f"{value / 1000:.1f}k"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.3g}"


def _cells(line: Line, middle: Sample) -> list[str]:
    return [line.peer, *(show(line, middle) for _, show in _COLUMNS)]


def _notes(line: Line) -> Iterator[str]:
    if line.failures:
        yield f"{len(line.failures)} of {line.rounds + len(line.failures)} rounds failed: {line.failures[0]}"
    if line.middle and line.middle.first_error:
        yield f"{line.middle.errors} of its tasks ended by an error, the first: {line.middle.first_error}"


def _aligned(row: Sequence[str], widths: Mapping[int, int]) -> str:
    cells = (f"{row[place]:{'>' if place else '<'}{width}}" for place, width in widths.items())
    return "  " + "  ".join(cells).rstrip()


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
