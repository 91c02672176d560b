"""A table of floors, measured in parts on a real Redis and judged as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiodlock.testing.servers import RedisServer, require
from benchmarks.environments import ROOT
from benchmarks.kept import kept


@pytest.mark.timeout(180)
def test_a_table_can_be_measured_in_parts(tmp_path: Path) -> None:
    """What an earlier run kept is judged with the rest; a missed floor is the exit status."""
    require(RedisServer)
    path = tmp_path / "results.json"

    def floors(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchmarks.floors", "redis", "--json", str(path), *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    for scenario in ("Mms", "I10000"):
        ended = floors("--row", scenario, "--rounds", "1", "--seconds", "0.2")
        assert ended.returncode == 0, ended.stderr
        assert f"redis {scenario} aiodlock-redis" in ended.stdout
    assert {row.scenario for row in kept(path)["redis"].rows} == {"Mms", "I10000"}
    judged = floors("--rounds", "0", "--row", "Mms", "--row", "I10000")
    assert (judged.returncode, judged.stderr) == (0, "")
    assert "redis I10000 aiodlock-redis: connections" in judged.stdout
    missed = floors("--rounds", "0", "--check")
    assert missed.returncode == 1
    assert "MISSED" in missed.stdout
