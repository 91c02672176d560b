"""The page: filled into its templates, and saved."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from aiodlock.cli.course import Course, Look
from aiodlock.cli.report.charts import Line, bars, lines
from aiodlock.cli.session import Stop
from aiodlock.cli.show import seconds

__all__ = ["Page"]

_MOST_LINES = 32  # of segments: neighbours are drawn as one beyond that


@dataclass(frozen=True, slots=True)
class Page:
    """What there is to show: a table, some words, the course of each sale, and the figures as ``--json`` has them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    story: str
    courses: Mapping[str, Course]
    figures: object

    def html(self) -> str:
        """Return it whole."""
        return _template("page").substitute(
            title=escape(self.title),
            head=_cells("th", self.columns),
            rows="\n".join(f"<tr>{_cells('td', row)}</tr>" for row in self.rows),
            story="\n".join(f"<p>{escape(line)}</p>" for line in self.story.splitlines()),
            sales="\n".join(_sale(name, course) for name, course in self.courses.items()),
            # A "<" inside could end the script; this is the same JSON without one.
            figures=json.dumps(self.figures).replace("<", "\\u003c").replace("&", "\\u0026"),
        )

    def save(self, file: Path) -> None:
        """Write it to *file*."""
        try:
            file.write_text(self.html(), "utf-8")
        except OSError as error:
            raise Stop(f"cannot save the report: {error}") from error


@cache
def _template(name: str) -> Template:
    return Template((resources.files(__package__) / f"{name}.html").read_text("utf-8"))


def _cells(kind: str, words: Iterable[str]) -> str:
    return "".join(f"<{kind}>{escape(word)}</{kind}>" for word in words)


def _sale(name: str, course: Course) -> str:
    rates = [Line("orders/s", _rate(course.looks, [look.sold for look in course.looks]))]
    if any(look.rows for look in course.looks):
        rates.append(Line("rows/s", _rate(course.looks, [look.rows for look in course.looks])))
    return _template("sale").substitute(
        name=escape(name),
        rates=lines(rates, marks=course.marks),
        waits=bars(course.waits),
        segments=lines(_by_segment(course.looks), marks=course.marks),
        marks="".join(f"<li>{escape(mark.what)} at {seconds(mark.at)}</li>" for mark in course.marks),
    )


def _rate(looks: Sequence[Look], totals: Sequence[int]) -> list[tuple[float, float]]:
    """Return how much came per second between each look and the one before."""
    pairs = itertools.pairwise(zip(looks, totals, strict=True))
    return [(now.at, (more - some) / (now.at - last.at)) for (last, some), (now, more) in pairs if now.at > last.at]


def _by_segment(looks: Sequence[Look]) -> list[Line]:
    count = len(looks[0].left) if looks else 0
    size = -(-count // _MOST_LINES) or 1
    return [_segments_line(looks, range(first, min(first + size, count))) for first in range(0, count, size)]


def _segments_line(looks: Sequence[Look], which: range) -> Line:
    name = f"segment {which[0]}" if len(which) == 1 else f"segments {which[0]} to {which[-1]}"
    return Line(name, [(look.at, sum(look.left[which.start : which.stop])) for look in looks])
