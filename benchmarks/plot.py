"""Charts from results: ``python -m benchmarks.plot results.json docs/benchmarks/``. Needs matplotlib."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.report import number

__all__ = ["draw", "main"]

Line: TypeAlias = dict[str, Any]

_COLOURS = {"ours": "#0b7285", "rival": "#adb5bd", "limit": "#e9c46a", "crooked": "#e76f51"}
_LABELS = {"ours": "aiodlock", "rival": "other libraries", "limit": "limit", "crooked": "wrong on purpose"}
_STYLE = {
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
    scenario, unit = lines[0]["scenario"], lines[0]["unit"]
    lines = sorted(lines, key=lambda line: float(line["value"]["median"]))
    figure, axes = _canvas(len(lines))
    _bars(axes, lines, lambda line: float(line["value"]["median"]))
    for place, line in enumerate(lines):
        axes.plot([line["value"]["least"], line["value"]["most"]], [place, place], color="#343a40", linewidth=1.2)
    smallest = min((line["value"]["median"] for line in lines if line["value"]["median"] > 0), default=1)
    axes.set_xscale("log")
    axes.set_xlim(left=smallest / 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.set_xlabel(f"{unit} (log scale), median and spread of {max(line['rounds'] for line in lines)} rounds")
    axes.set_title(scenario)
    return figure


def _fairness(lines: Sequence[Line]) -> Figure:
    """Draw Jain's index: 1 when every task got the same share."""
    figure, axes = _canvas(len(lines))
    lines = sorted(lines, key=lambda line: (line["scenario"], line["middle"]["jain"]))
    _bars(
        axes,
        lines,
        lambda line: float(line["middle"]["jain"]),
        named=lambda line: f"{line['scenario']}  {line['peer']}",
    )
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("Jain's index: 1 = every task got the same, 0 = one got everything")
    axes.set_title("Fairness")
    return figure


def _canvas(bars: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 1.3 + 0.32 * bars), layout="constrained")
    return figure, figure.add_subplot()


def _bars(
    axes: Axes,
    lines: Sequence[Line],
    value: Callable[[Line], float],
    *,
    named: Callable[[Line], str] = lambda line: str(line["peer"]),
) -> None:
    for place, line in enumerate(lines):
        axes.barh(place, value(line), color=_COLOURS[line["role"]], height=0.7)
        axes.annotate(number(value(line)), (value(line), place), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(lines)), [named(line) for line in lines])
    for role in dict.fromkeys(line["role"] for line in lines):
        axes.barh(0, 0, color=_COLOURS[role], label=_LABELS[role])
    axes.legend(loc="lower right", frameon=False)
    axes.margins(x=0.12)


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
