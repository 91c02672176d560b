"""The page of a sale: what is on it, and that nothing in it comes from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aiodlock.cli.course import Course, Diary, Look, Mark, Waits
from aiodlock.cli.report import Page
from aiodlock.cli.session import Stop

COURSE = Course(
    looks=(Look(0.0, 0, 0, (5, 5)), Look(1.0, 4, 0, (3, 3)), Look(3.0, 10, 9, (0, 0))),
    waits=(Waits(0.001, 7), Waits(0.002, 3)),
    marks=(Mark(0.5, "relay killed"), Mark(2.0, "redis killed")),
)
NASTY = '</script><script>alert(1)</script> & "so" on'


def page(title: str = "10 in stock", courses: dict[str, Course] | None = None) -> Page:
    rows = [("one lock", "1,000")]
    return Page(title, ("", "orders/s"), rows, "Told.", courses or {"sale": COURSE}, {"title": title, "orders": 1000})


def parsed(page: Page) -> ElementTree.Element:
    return ElementTree.fromstring(page.html())


def titles(root: ElementTree.Element, figure: str, shape: str) -> list[str]:
    """Return what the shapes of one chart say when they are pointed at."""
    return [found.text or "" for found in root.findall(f".//figure[@class='{figure}']//{shape}/title")]


def test_every_number_can_be_read_from_its_chart() -> None:
    """Bars, lines and marks carry them as titles."""
    root = parsed(page())
    assert titles(root, "waits", "rect") == ["7 waited less than 1 ms", "3 waited less than 2 ms"]
    assert titles(root, "rates", "polyline") == ["orders/s: 3 at the end", "rows/s: 4 at the end"]
    assert titles(root, "segments", "polyline") == ["segment 0: 0 at the end", "segment 1: 0 at the end"]
    assert titles(root, "rates", "g") == ["relay killed at 500 ms", "redis killed at 2.0 s"]
    assert [item.text for item in root.findall(".//ol/li")] == titles(root, "segments", "g")


def test_lines_go_where_the_numbers_are() -> None:
    """Higher on the paper is more, and each point lies at its time."""
    (line, *_) = parsed(page()).findall(".//figure[@class='segments']//polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    across, up = zip(*points, strict=True)
    assert (across[1] - across[0]) * 3 == pytest.approx(across[2] - across[0], abs=0.5)
    assert up[0] < up[1] < up[2]
    assert (up[2] - up[1]) / (up[2] - up[0]) == pytest.approx(3 / 5, abs=0.01)


def test_what_is_on_it_cannot_break_out() -> None:
    """Not into the markup, nor out of the figures."""
    root = parsed(page(NASTY))
    assert root.findtext(".//h1") == NASTY
    (script,) = root.findall(".//script")
    assert json.loads(script.text or "") == {"title": NASTY, "orders": 1000}


def test_it_loads_nothing() -> None:
    assert re.search(r"@import|src=|href=|url\(|https?:", page().html()) is None


def test_many_segments_are_drawn_as_few_lines() -> None:
    """And none of them is left out."""
    course = Course((Look(0.0, 0, 0, (1,) * 100), Look(1.0, 0, 0, (1,) * 100)), (), ())
    found = titles(parsed(page(courses={"wide": course})), "segments", "polyline")
    assert (len(found), found[0], found[-1]) == (25, "segments 0 to 3: 4 at the end", "segments 96 to 99: 4 at the end")


def test_a_sale_that_never_was_has_a_page() -> None:
    assert parsed(page(courses={"none": Diary().course()})).findtext(".//h2") == "none"


def test_a_page_that_cannot_be_saved_is_told(tmp_path: Path) -> None:
    with pytest.raises(Stop, match="cannot save the report"):
        page().save(tmp_path / "missing" / "page.html")
