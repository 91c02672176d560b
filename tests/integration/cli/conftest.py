"""Commands, servers and terminals for the tests of the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aiodlock.testing.servers import Server, require
from tests.integration.cli.support import AIODLOCK, SERVERS, Cli, OnScreen, Screen


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run one command in an empty directory, without a terminal, and return how it ended."""

    def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*AIODLOCK, *arguments],
            cwd=tmp_path,
            env=os.environ | (env or {}),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=50,
            check=False,
        )

    return run


@pytest.fixture(params=SERVERS.values(), ids=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that other processes see."""
    require(request.param)
    with request.param() as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return server.url


@pytest.fixture
def screen() -> Iterator[OnScreen]:
    """Start a command on a terminal of its own; it is ended with the test."""
    started: list[Screen] = []

    def start(*command: str, env: Mapping[str, str] | None = None) -> Screen:
        started.append(Screen(*command, env=env))
        return started[-1]

    yield start
    for each in started:
        each.close()
