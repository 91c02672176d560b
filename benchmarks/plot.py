"""Charts from results, of docs/ if nothing else is said: ``python -m benchmarks.plot [RESULTS [FOLDER]]``.

Needs matplotlib.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.environments import ROOT
from benchmarks.figures import Spread
from benchmarks.kept import kept
from benchmarks.options import Parser, show
from benchmarks.peers import PEERS, Role
from benchmarks.report import number
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS
from benchmarks.summary import Line, summarise

__all__ = ["RESULTS", "draw", "main"]

RESULTS = ROOT / "docs" / "assets" / "benchmarks" / "results.json"  # behind the charts of README and docs


@dataclass(frozen=True, slots=True)
class _Bar:
    label: str
    role: Role
    spread: Spread


_CROWDS = ("C100", "C1000", "M", "Mms")
_COLOURS = {Role.OURS: "#0b7285", Role.RIVAL: "#adb5bd", Role.LIMIT: "#e9c46a", Role.CROOKED: "#e76f51"}
_LABELS = {Role.OURS: "aiodlock", Role.RIVAL: "other libraries", Role.LIMIT: "limit", Role.CROOKED: "wrong on purpose"}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "aiodlock",  # the same numbers give the same file
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
}


def draw(runs: Mapping[str, Results], folder: Path) -> list[Path]:
    """Write charts of what several locks were measured in, and one of fairness, for each table; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):
        return [
            _saved(chart, folder / f"{'-'.join(filter(None, (table, name)))}.svg")
            for table, results in runs.items()
            for name, chart in _charts([line for line in summarise(results, "") if line.value]).items()
        ]


def _charts(lines: Sequence[Line]) -> dict[str, Figure]:
    scenarios = Counter(line.scenario for line in lines)
    charts = {
        name: _values([line for line in lines if line.scenario == name]) for name, bars in scenarios.items() if bars > 1
    }
    crowds = [line for line in lines if line.scenario in _CROWDS and line.middle and line.middle.jain]
    return charts | ({"fairness": _fairness(crowds)} if crowds else {})


def _values(lines: Sequence[Line]) -> Figure:
    """Draw the median of each lock as a bar, its spread as a whisker."""
    scenario = SCENARIOS[lines[0].scenario]
    bars = sorted(
        (_bar(line, line.peer, line.value) for line in lines if line.value), key=lambda bar: bar.spread.median
    )
    figure, axes = _bars(bars)
    if positive := [bar.spread.median for bar in bars if bar.spread.median > 0]:
        axes.set_xscale("log")
        axes.set_xlim(left=min(positive) / 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.set_xlabel(f"{scenario.unit} (log scale), median and spread of {lines[0].rounds} rounds")
    axes.set_title(f"{scenario.name}: {scenario.question}")
    return figure


def _fairness(lines: Sequence[Line]) -> Figure:
    """Draw Jain's index: 1 when every task got the same share."""
    shares = [(line, line.middle.jain) for line in lines if line.middle and line.middle.jain]
    shares.sort(key=lambda share: (share[0].scenario, share[1]))
    figure, axes = _bars([_bar(line, f"{line.scenario}  {line.peer}", Spread.of([jain])) for line, jain in shares])
    axes.set_xlim(0, 1.1)
    axes.set_xlabel("Jain's index: 1 = every task got the same, 0 = one got everything")
    axes.set_title("Fairness")
    return figure


def _bar(line: Line, label: str, spread: Spread) -> _Bar:
    return _Bar(label, PEERS[line.peer].role, spread)


def _bars(bars: Sequence[_Bar]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 1.5 + 0.32 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    for place, bar in enumerate(bars):
        value = bar.spread
        axes.barh(place, value.median, color=_COLOURS[bar.role], height=0.7)
        axes.plot([value.least, value.most], [place, place], color="#343a40", linewidth=1.2)
        axes.annotate(number(value.median), (value.most, place), (4, 0), textcoords="offset points", va="center")
    for role in dict.fromkeys(bar.role for bar in bars):
        axes.barh(0, 0, color=_COLOURS[role], label=_LABELS[role])
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.margins(x=0.12)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure, axes


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, and print where."""
    parser = Parser(prog="python -m benchmarks.plot", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "results", type=Path, nargs="?", default=RESULTS, help="written by --json (default: those of docs/)"
    )
    parser.add_argument("folder", type=Path, nargs="?", help="where to (default: beside the results)")
    options = parser.parse_args(arguments)
    if not options.results.exists():
        parser.error(f"no file {options.results}")
    show("\n".join(map(str, draw(kept(options.results), options.folder or options.results.parent))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
