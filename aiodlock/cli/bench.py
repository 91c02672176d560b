"""``aiodlock bench``: the benchmark harness, which lives beside the package in a clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer

import aiodlock
from aiodlock.cli.session import Stop

__all__ = ["bench"]


def bench(context: typer.Context) -> int:
    """Measure locks against each other: python -m benchmarks, with all its options."""
    root = Path(aiodlock.__file__).parents[1]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise Stop(
            "the benchmarks come with the source, not with the package: clone the repository and run 'make bench'"
        )
    command = [sys.executable, "-P", "-m", "benchmarks", *context.args]  # -P: ours, not one of the working directory
    return subprocess.call(command, env={**os.environ, "PYTHONPATH": str(root)})
