"""The harness as its users meet it: a small matrix in memory, its JSON, the charts from it, and mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.environments import ROOT

pytestmark = pytest.mark.timeout(180)  # every cell starts a process

PEERS = ("asyncio", "aiodlock-memory")
TWO = ("--peer", PEERS[0], "--peer", PEERS[1], "--seconds", "0.1", "--no-limits")


def run(module: str, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two runs have added to one file: two scenarios in two rounds, then one in one."""
    path = tmp_path_factory.mktemp("benchmarks") / "results.json"
    for which in (("--scenario", "U1", "--scenario", "C100", "--rounds", "2"), ("--scenario", "C100", "--rounds", "1")):
        ended = run("benchmarks", *TWO, *which, "--json", str(path))
        assert ended.returncode == 0, ended.stderr
    return path


def _runs(results: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(results.read_text())
    assert len(runs) == 2
    return runs


def test_rounds_are_interleaved_and_each_begins_with_another(results: Path) -> None:
    """Round 1 of every cell comes before round 2 of any, and no lock is always first."""
    cells = [(row["round"], row["scenario"], row["peer"]) for row in _runs(results)[0]["rounds"]]
    expected = [(1, PEERS[::-1]), (2, PEERS)]
    assert cells == [(n, scenario, peer) for n, peers in expected for scenario in ("U1", "C100") for peer in peers]


def test_every_round_and_the_summary_are_kept(results: Path) -> None:
    """With what is needed to understand them, and without every wait."""
    one = _runs(results)[0]
    assert one["settings"]["rounds"] == 2
    assert one["machine"]["python"]
    for row in one["rounds"]:
        assert row["sample"]["value"] > 0
        assert row["sample"]["violations"] == 0
    assert {(line["scenario"], line["peer"]) for line in one["summary"]} == {
        (s, p) for s in ("U1", "C100") for p in PEERS
    }
    assert all(line["value"]["least"] <= line["value"]["median"] <= line["value"]["most"] for line in one["summary"])
    assert results.stat().st_size < 20_000


def test_a_table_is_printed() -> None:
    """One for each scenario, with a column for what a lock may do wrong."""
    ended = run("benchmarks", "--peer", "aiodlock-memory", "--scenario", "C100", "--rounds", "1", "--seconds", "0.1")
    assert ended.returncode == 0, ended.stderr
    assert "C100: 100 tasks on one key" in ended.stdout
    assert all(word in ended.stdout for word in ("aiodlock-memory", "asyncio", "Jain", "violations", "of limit"))


def test_charts_are_drawn_from_it(results: Path) -> None:
    """One for each scenario and one of fairness, beside the results; each names every lock."""
    ended = run("benchmarks.plot", str(results))
    assert ended.returncode == 0, ended.stderr
    drawn = [Path(line) for line in ended.stdout.splitlines()]
    assert [path.name for path in drawn] == ["U1.svg", "C100.svg", "fairness.svg"]
    for path in drawn:
        assert path.parent == results.parent
        shown = "".join(ElementTree.parse(path).getroot().itertext())
        assert all(peer in shown for peer in PEERS)


@pytest.mark.parametrize(
    ("module", "arguments", "word"),
    [
        ("benchmarks", ["--nope"], "--nope"),
        ("benchmarks", ["--peer", "nobody"], "nobody"),
        ("benchmarks", ["--rounds", "0"], "'0'"),
        ("benchmarks", ["--seconds", "inf"], "'inf'"),
        ("benchmarks", ["--peer", "asyncio", "--scenario", "W", "--no-limits"], "none of these locks"),
        ("benchmarks.floors", ["redis", "--row", "C100"], "none of these rows"),
        ("benchmarks.floors", ["--check"], "table"),
        ("benchmarks.plot", ["no-such-file"], "no-such-file"),
        ("benchmarks.core", ["--rounds", "many"], "'many'"),
        ("aiodlock", ["bench", "--nope"], "--nope"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_mistake_is_one_line(module: str, arguments: list[str], word: str) -> None:
    """It says what is wrong and where to read more; no screen of usage, no traceback."""
    ended = run(module, *arguments)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert word in ended.stderr
    assert "--help" in ended.stderr


def test_names_stand_apart_from_their_notes() -> None:
    ended = run("aiodlock", "bench", "--list")
    assert ended.returncode == 0
    assert any(line.split("  ")[0] == "aiodlock-zookeeper-nowait" for line in ended.stdout.splitlines())
    assert all("  " in line for line in ended.stdout.splitlines() if line)


def test_a_closed_pipe_is_no_traceback() -> None:
    """Who reads only the beginning, as head does, sees no error."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = run("aiodlock", "bench", "--list", stdout=writing)
    os.close(writing)
    assert ended.stderr == ""
