from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def state_of() -> Callable[[int], str]:
    """Return the kernel's letter for a process: T is stopped, Z ended and not waited for, "" gone."""

    def state_of(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""

    return state_of


@pytest.fixture
def await_death() -> Callable[[int], None]:
    """Wait on the kernel's own handle until a process that is not our child has ended."""

    def await_death(pid: int) -> None:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            assert select.select([handle], [], [], 5.0)[0], f"process {pid} still runs"
        finally:
            os.close(handle)

    return await_death


@pytest.fixture
def environment() -> dict[str, str]:
    """Return an environment in which a fresh interpreter imports what this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
