"""Five independent masters that a test may harm, and one whose clock it may move."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aiodlock.testing.servers import IndependentMasters, RedisServer, require


@pytest.fixture
def masters() -> Iterator[IndependentMasters]:
    require(RedisServer)
    with IndependentMasters() as running:
        yield running


class MovableClock(RedisServer):
    """A Redis whose wall clock can jump; every other clock of it stays as it is."""

    def __init__(self, library: Path) -> None:
        super().__init__()
        self._library = library
        self._offset = self.directory / "offset"
        self.jump(0.0)

    def command(self) -> Sequence[str]:
        return ("env", f"LD_PRELOAD={self._library}", f"CLOCK_OFFSET={self._offset}", *super().command())

    def jump(self, seconds: float) -> None:
        """Let its clock be so many seconds ahead of the machine's, from now on."""
        with open(self._offset, "r+b" if self._offset.exists() else "w+b") as file:  # in place: it is mapped
            file.write(struct.pack("q", round(seconds * 1e9)))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        give_up = pytest.fail if os.environ.get("CI", "").lower() in {"1", "true"} else pytest.skip
        give_up("a C compiler is not installed: apt-get install --no-install-recommends gcc libc6-dev")
    built = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
    return built


@pytest.fixture
def with_movable_clocks(library: Path) -> Iterator[Callable[[int], IndependentMasters]]:
    """Start five masters, so many of them with a clock that can jump."""
    started: list[IndependentMasters] = []

    def start(count: int) -> IndependentMasters:
        nodes = [MovableClock(library) if number < count else RedisServer() for number in range(5)]
        started.append(IndependentMasters(nodes))
        return started[-1].start()

    require(RedisServer)
    yield start
    for masters in started:
        masters.close()
