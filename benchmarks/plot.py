"""Charts from results: ``python -m benchmarks.plot results.json docs/benchmarks/``. Needs matplotlib."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.report import number
from benchmarks.scenarios import SCENARIOS

__all__ = ["draw", "main"]

Line: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Bar:
    label: str
    role: str
    median: float
    least: float
    most: float


_COLOURS = {"ours": "#0b7285", "rival": "#adb5bd", "limit": "#e9c46a", "crooked": "#e76f51"}
_LABELS = {"ours": "aiodlock", "rival": "other libraries", "limit": "limit", "crooked": "wrong on purpose"}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "aiodlock",  # the same numbers give the same file
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
}


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """Write one chart for each scenario, and one of fairness; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = [line for line in results["summary"] if line["value"]]
    names = list(dict.fromkeys(line["scenario"] for line in lines))
    with mpl.rc_context(_STYLE):
        charts = {name: _values([line for line in lines if line["scenario"] == name]) for name in names}
        crowds = [
            line for line in lines if line["scenario"] in ("C100", "C1000", "M", "Mms") and line["middle"]["jain"]
        ]
        if crowds:
            charts["fairness"] = _fairness(crowds)
        return [_saved(figure, folder / f"{name}.svg") for name, figure in charts.items()]


def _values(lines: Sequence[Line]) -> Figure:
    """Draw the median of each lock as a bar, its spread as a whisker."""
    scenario = SCENARIOS[lines[0]["scenario"]]
    bars = sorted((_Bar(line["peer"], line["role"], **line["value"]) for line in lines), key=lambda bar: bar.median)
    figure, axes = _bars(bars)
    axes.set_xscale("log")
    axes.set_xlim(left=min((bar.median for bar in bars if bar.median > 0), default=1) / 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.set_xlabel(f"{scenario.unit} (log scale), median and spread of {lines[0]['rounds']} rounds")
    axes.set_title(f"{scenario.name}: {scenario.question}")
    return figure


def _fairness(lines: Sequence[Line]) -> Figure:
    """Draw Jain's index: 1 when every task got the same share."""
    lines = sorted(lines, key=lambda line: (line["scenario"], line["middle"]["jain"]))
    shares = [(line, line["middle"]["jain"]) for line in lines]
    figure, axes = _bars(
        [_Bar(f"{line['scenario']}  {line['peer']}", line["role"], share, share, share) for line, share in shares]
    )
    axes.set_xlim(0, 1.1)
    axes.set_xlabel("Jain's index: 1 = every task got the same, 0 = one got everything")
    axes.set_title("Fairness")
    return figure


def _bars(bars: Sequence[_Bar]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 1.5 + 0.32 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    for place, bar in enumerate(bars):
        axes.barh(place, bar.median, color=_COLOURS[bar.role], height=0.7)
        axes.plot([bar.least, bar.most], [place, place], color="#343a40", linewidth=1.2)
        axes.annotate(number(bar.median), (bar.most, place), (4, 0), textcoords="offset points", va="center")
    for role in dict.fromkeys(bar.role for bar in bars):
        axes.barh(0, 0, color=_COLOURS[role], label=_LABELS[role])
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.margins(x=0.12)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure, axes


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for path in draw(json.loads(options.results.read_text()), options.folder):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
