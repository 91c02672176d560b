"""bench: the harness beside the package, with all that was said to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aiodlock
from tests.integration.cli.support import assert_one_line

HARNESS = "import os, sys; print(sys.argv[1:], os.getcwd()); sys.exit(5)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A directory with a copy of the package and nothing else."""
    home = tmp_path / "home"
    shutil.copytree(Path(aiodlock.__file__).parent, home / "aiodlock", ignore=shutil.ignore_patterns("__pycache__"))
    return home


def _bench(package: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "aiodlock", "bench", "--list", "--help", "x"]
    env = os.environ | {"PYTHONPATH": str(package)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def _write_harness(directory: Path, program: str) -> None:
    (directory / "benchmarks").mkdir()
    (directory / "benchmarks" / "__init__.py").touch()
    (directory / "benchmarks" / "__main__.py").write_text(program)


def test_options_and_status_pass_through(package: Path, tmp_path: Path) -> None:
    """--help too is the harness's own; it runs where the user is."""
    _write_harness(package, HARNESS)
    ended = _bench(package, tmp_path)
    assert (ended.returncode, ended.stdout) == (5, f"['--list', '--help', 'x'] {tmp_path}\n")


def test_an_installed_package_says_where_they_are(package: Path, tmp_path: Path) -> None:
    """One line; benchmarks of somebody else in the working directory are not run."""
    _write_harness(tmp_path, "print('not ours')")
    assert_one_line(_bench(package, tmp_path), 1, "clone the repository", "make bench")


def test_ours_win_over_those_of_the_working_directory(package: Path, tmp_path: Path) -> None:
    """A package of the same name where the user is changes nothing."""
    _write_harness(package, HARNESS)
    _write_harness(tmp_path, "print('not ours')")
    assert _bench(package, tmp_path).returncode == 5
