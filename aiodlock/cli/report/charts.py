"""Charts as SVG: lines over time with marks, and bars. Every number can be read by pointing at it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from aiodlock.cli.course import Mark, Waits
from aiodlock.cli.show import seconds

__all__ = ["Line", "bars", "lines"]

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 18, 28  # around the plot, for what is written there
_FEWEST_PLACES = 6  # for bars: a single one is not as wide as the paper
_MOST_NAMED = 4  # lines; more are told apart by pointing at them


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart: its name, and where it goes."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Plot:
    """Where values are on the paper."""

    across: float
    up: float

    def x(self, value: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * value / self.across, 1)

    def y(self, value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / self.up, 1)


def lines(drawn: Sequence[Line], *, marks: Sequence[Mark] = ()) -> str:
    """Draw lines over seconds, the marks numbered from 1."""
    points = [point for line in drawn for point in line.points]
    plot = _Plot(_nice(max((at for at, _ in points), default=0.0)), _nice(max((up for _, up in points), default=0.0)))
    parts = [*_scale_up(plot), *_scale_across(plot)]
    parts += [_mark(plot, number, mark) for number, mark in enumerate(marks, 1) if mark.at <= plot.across]
    parts += [_line(plot, number, line) for number, line in enumerate(drawn)]
    if 1 < len(drawn) <= _MOST_NAMED:
        parts += [_name(number, line) for number, line in enumerate(drawn)]
    return _svg(parts)


def bars(waits: Sequence[Waits]) -> str:
    """Draw a histogram."""
    plot = _Plot(max(_FEWEST_PLACES, len(waits)), _nice(max((one.count for one in waits), default=0)))
    return _svg([*_scale_up(plot), *(_bar(plot, place, one) for place, one in enumerate(waits))])


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">\n' + "\n".join(parts) + "\n</svg>"


def _nice(value: float) -> float:
    """Return a number not below *value*, and not much above it, whose quarters are easy to read."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10, 20) if step * power >= value)


def _scale_up(plot: _Plot) -> Iterator[str]:
    for value in _quarters(plot.up):
        y = plot.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        yield _text(_LEFT - 6, y + 4, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", "end")


def _scale_across(plot: _Plot) -> Iterator[str]:
    for value in _quarters(plot.across):
        yield _text(plot.x(value), _HEIGHT - 8, f"{value:g} s", "middle")


def _quarters(end: float) -> list[float]:
    return [end * quarter / 4 for quarter in range(5)]


def _line(plot: _Plot, number: int, line: Line) -> str:
    path = " ".join(f"{plot.x(at)},{plot.y(up)}" for at, up in line.points)
    last = f"{line.points[-1][1]:,.0f}" if line.points else "nothing"
    title = f"<title>{escape(line.name)}: {last} at the end</title>"
    return f'<polyline class="line" style="--hue: {_hue(number)}" points="{path}">{title}</polyline>'


def _name(number: int, line: Line) -> str:
    place = f'x="{_WIDTH - _RIGHT - 4}" y="{_TOP + 12 + 14 * number}" text-anchor="end"'
    return f'<text class="name" style="--hue: {_hue(number)}" {place}>{escape(line.name)}</text>'


def _mark(plot: _Plot, number: int, mark: Mark) -> str:
    x = plot.x(mark.at)
    line = f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
    title = f"<title>{escape(mark.what)} at {seconds(mark.at)}</title>"
    return f'<g class="mark">{title}{line}{_text(x, _TOP - 5, str(number), "middle")}</g>'


def _bar(plot: _Plot, place: int, one: Waits) -> str:
    x, y, width = plot.x(place + 0.08), plot.y(one.count), plot.x(0.84) - plot.x(0)
    below = seconds(one.below)
    title = f"<title>{one.count:,} waited less than {below}</title>"
    rect = f'<rect class="bar" x="{x}" y="{y}" width="{width:.1f}" height="{plot.y(0) - y:.1f}">{title}</rect>'
    return rect + _text(plot.x(place + 0.5), _HEIGHT - 12, f"< {below}", "middle", size=9)


def _text(x: float, y: float, words: str, anchor: str, *, size: int = 11) -> str:
    return f'<text x="{x}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def _hue(number: int) -> int:
    """Return a colour far from those of the lines before it: turned by the golden angle."""
    return (212 + 137 * number) % 360
