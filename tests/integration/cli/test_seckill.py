"""The flash sale: what it shows, and that it shows a broken lock."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import aiodlock
from aiodlock.cli.sale import Run, Terms, jain, quantile
from aiodlock.cli.seckill import check
from aiodlock.cli.session import Stop
from aiodlock.cli.ways import Tally, ways_of
from tests.integration.cli.support import AIODLOCK, Cli, OnScreen

SMALL = ("--buyers", "400", "--stock", "200", "--concurrency", "50", "--segments", "4", "--work", "0")


def _figures(ended: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert ended.returncode == 0, ended.stderr
    return {way["way"]: way for way in json.loads(ended.stdout)["ways"]}


def test_the_figures_tell_the_story(cli: Cli) -> None:
    """Without a lock it oversells; with one, four segments, or stock on the server, exactly the stock is sold."""
    ways = _figures(cli("seckill", *SMALL, "--json"))
    assert list(ways) == ["no lock", "one lock", "4 segments", "stock"]
    assert ways["no lock"]["oversold"] > 0
    for name in ("one lock", "4 segments", "stock"):
        assert (ways[name]["sold"], ways[name]["oversold"], ways[name]["unsold"]) == (200, 0, 0)
        assert 0 < ways[name]["wait_p50"] <= ways[name]["wait_p99"]
        assert 0 < ways[name]["fairness"] <= 1
    assert ways["one lock"]["fairness"] == 1  # first come, first served


def test_with_fewer_buyers_than_stock_everybody_gets_one(cli: Cli) -> None:
    """Nobody is turned away while a segment has stock, and nothing is oversold even without a lock."""
    ways = _figures(cli("seckill", "--buyers", "90", "--stock", "100", "--segments", "16", "--work", "0", "--json"))
    assert {way["sold"] for way in ways.values()} == {90}


def test_one_buyer_at_a_time_needs_no_lock(cli: Cli) -> None:
    """The race of the first row is real: without concurrency it is not there."""
    ways = _figures(cli("seckill", *SMALL, "--concurrency", "1", "--json"))
    assert [way["oversold"] for way in ways.values()] == [0, 0, 0, 0]


def test_without_a_terminal_there_are_plain_lines(cli: Cli) -> None:
    """The table on stdout, the progress on stderr, and no escape sequence in either."""
    ended = cli("seckill", *SMALL)
    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "one lock: 400 of 400 buyers served" in ended.stderr
    assert "200 in stock, 400 buyers, 50 at a time" in ended.stdout
    for column in ("orders/s", "wait p50", "wait p99", "sold", "oversold", "fairness"):
        assert column in ended.stdout
    for row in ("no lock", "one lock", "4 segments", "stock"):
        assert f"\n  {row} " in ended.stdout
    assert "Without a lock" in ended.stdout


def test_on_a_terminal_there_is_a_bar(screen: OnScreen) -> None:
    """It is drawn again while buyers are served, and the table follows."""
    shown = screen(*AIODLOCK, "seckill", "--buyers", "1000", "--stock", "500")
    shown.expect(r"one lock.*━.*\b[1-9]\d*/1000")
    shown.expect(r"1000/1000[\s\S]*oversold[\s\S]*Without a lock")
    assert shown.wait() == 0


def test_a_picture_loads_nothing_from_elsewhere(cli: Cli, tmp_path: Path) -> None:
    """The saved picture shows the table, and refers to nothing but its own parts."""
    assert cli("seckill", *SMALL, "--svg", "sale.svg").returncode == 0
    picture = (tmp_path / "sale.svg").read_text()
    assert "oversold" in picture
    assert re.search(r"@font-face|@import|src=|href=|url\((?!#)", picture) is None


def test_a_picture_that_cannot_be_saved_is_one_line(cli: Cli) -> None:
    """The sale is told all the same."""
    ended = cli("seckill", *SMALL, "--svg", "missing/sale.svg")
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "missing/sale.svg" in ended.stderr.splitlines()[-1]


def test_a_report_says_what_the_figures_say(cli: Cli, tmp_path: Path) -> None:
    """One page, well-formed: the figures of --json, the table made from them, and a chart of each."""
    ended = cli("seckill", *SMALL, "--json", "--report", "sale.html")
    assert ended.returncode == 0, ended.stderr
    told, page = json.loads(ended.stdout), ElementTree.parse(tmp_path / "sale.html")
    assert json.loads(page.findtext(".//script[@id='figures']") or "") == told
    rows = [[cell.text for cell in row] for row in page.findall(".//table[@id='result']/tbody/tr")]
    for way, row, section in zip(told["ways"], rows, page.findall(".//section"), strict=True):
        assert row[0] == section.findtext("h2") == way["way"]
        assert row[1] == f"{way['orders_per_second']:,.0f}"
        assert row[4:] == [f"{way['sold']:,}", f"{way['oversold']:,}", f"{way['fairness']:.3f}"]
        waited = [title.text or "" for title in section.findall(".//figure[@class='waits']//title")]
        assert sum(int(words.split()[0].replace(",", "")) for words in waited) == way["sold"]
        left = [title.text or "" for title in section.findall(".//figure[@class='segments']//title")]
        last = way["course"]["looks"][-1]
        assert left == [f"segment {number}: {one:,} at the end" for number, one in enumerate(last["left"])]
        assert last["sold"] == way["sold"]


def test_interrupted_it_ends_at_once() -> None:
    """Ctrl-C in the middle: status 130, no traceback."""
    command = [*AIODLOCK, "seckill", "--buyers", "100000", "--stock", "100000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "of 100,000" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Traceback" not in said


# --- the sale itself ---------------------------------------------------------------------------------------

TERMS = Terms(stock=50, buyers=100, concurrency=20, segments=4, work=0.0, seed=1)


class _Careless:
    """The broken twin: a way that says it locks."""

    name = "careless"

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def buy(self, buyer: str) -> tuple[bool, float]:
        return await self._tally.sell(0), 0.0

    async def left(self) -> list[int]:
        return self._tally.left


class _Lazy(_Careless):
    """Another: it turns every second buyer away."""

    name = "lazy"
    _turn = 0

    async def buy(self, buyer: str) -> tuple[bool, float]:
        self._turn += 1
        return bool(self._turn % 4), 0.0


async def test_real_locks_pass_the_check() -> None:
    """All ways but the first sell exactly the stock."""
    async with aiodlock.connect("memory://") as locks:
        outcomes = [await Run(TERMS, way).sell() for way in ways_of(TERMS, locks, key="sku")]
    check(outcomes)
    assert [outcome.sold for outcome in outcomes[1:]] == [50, 50, 50]


async def test_the_same_seed_is_the_same_crowd() -> None:
    """Who meets whom in a segment depends on the seed alone."""
    async with aiodlock.connect("memory://") as locks:
        first, again, other = [
            (await Run(terms, ways_of(terms, locks, key="sku")[2]).sell()).fairness
            for terms in (TERMS, TERMS, replace(TERMS, seed=2))
        ]
    assert first == again != other


class _Closed(_Careless):
    """A third one: it sells nothing at all."""

    name = "closed"

    async def buy(self, buyer: str) -> tuple[bool, float]:
        return False, 0.0


@pytest.mark.parametrize(
    ("broken", "stock", "word"),
    [(_Careless, 50, "oversold"), (_Lazy, 100, "25 unsold"), (_Closed, 100, "100 unsold")],
)
async def test_a_broken_lock_is_exposed(broken: type[_Careless], stock: int, word: str) -> None:
    """What oversells, or leaves stock while buyers are sent away, ends with an error."""
    outcome = await Run(replace(TERMS, stock=stock), broken(Tally(stock, segments=1, work=0.0))).sell()
    with pytest.raises(Stop, match=word):
        check([outcome, outcome])


def test_the_stock_of_all_segments_is_the_stock() -> None:
    """Nothing is lost by dividing."""
    assert sum(Tally(10, segments=4, work=0.0).left) == 10
    assert Tally(2, segments=4, work=0.0).left == [1, 1, 0, 0]


@pytest.mark.parametrize(("counts", "index"), [([5, 5, 5], 1.0), ([9, 0, 0], 1 / 3), ([0, 0], 1.0)])
def test_fairness(counts: list[int], index: float) -> None:
    """1 when all got the same, 1/n when one got everything."""
    assert jain(counts) == pytest.approx(index)


def test_quantiles() -> None:
    """The value that so many do not exceed."""
    values = [float(value) for value in range(100, 0, -1)]
    assert [quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)] == [50.0, 99.0, 7.0]
