"""Cells on a real Redis: what the observer counts is what the server was sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aiodlock.testing.servers import RedisServer, require
from benchmarks import limits
from benchmarks.cell import Cell
from benchmarks.distance import far_away
from benchmarks.figures import Sample
from benchmarks.observer import split
from benchmarks.peers import PEERS
from benchmarks.redis_observer import RedisObserver
from benchmarks.resp import Wire
from benchmarks.scenarios import SCENARIOS

SECTIONS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture
def observer(server: RedisServer) -> Iterator[RedisObserver]:
    with closing(RedisObserver(server.url)) as own:
        own.clean()
        yield own


async def measured(
    server: RedisServer, observer: RedisObserver, peer: str, scenario: str, *, seconds: float = 0.3
) -> Sample:
    cell = Cell(
        peer=PEERS[peer],
        scenario=SCENARIOS[scenario],
        seconds=seconds,
        python=Path(sys.executable),
        url=server.url,
        observer=observer,
    )
    return await cell.run()


@pytest.mark.parametrize("peer", ["blocking-socket", "redis-py"])
async def test_commands_are_told_from_what_scripts_do(peer: str, server: RedisServer, observer: RedisObserver) -> None:
    """The server's own trace, which marks what ran inside Lua, gives the same two numbers."""
    adapter = PEERS[peer].adapter(server.url)
    await adapter.open()
    lock = adapter.lock("counted")
    async with lock:  # loads scripts and opens connections
        pass
    with closing(Wire(server.url)) as trace, closing(Wire(server.url)) as end:
        trace.call("MONITOR")
        before = observer.look()
        for _ in range(SECTIONS):
            async with lock:
                pass
        after = observer.look()
        end.call("ECHO", "end-of-trace")
        lines = [line for line in _until(trace, b"end-of-trace") if b'"INFO"' not in line]
    calls = split(before, after, PEERS[peer])
    inside = sum(b" lua]" in line for line in lines)
    assert (calls.sent, calls.in_scripts) == (len(lines) - inside, inside)
    assert calls.sent == 2 * SECTIONS
    await _close(adapter)


async def test_an_uncontended_lock_on_one_connection(server: RedisServer, observer: RedisObserver) -> None:
    sample = await measured(server, observer, "blocking-socket", "U1")
    assert sample.connections == 1
    assert sample.commands is not None
    assert sample.in_scripts is not None
    # The section in progress when the window opens or closes may be counted on one side only.
    assert sample.commands * sample.sections == pytest.approx(2 * sample.sections, abs=10)
    assert sample.in_scripts * sample.sections == pytest.approx(4 * sample.sections, abs=20)
    assert sample.violations == 0


async def test_a_wake_up_is_timed_between_two_processes(server: RedisServer, observer: RedisObserver) -> None:
    sample = await measured(server, observer, "blocking-socket", "W")
    assert sample.connections == 2
    assert sample.sections >= 5
    assert sample.wait_p50 is not None
    assert sample.wait_p50 > 0


async def test_idle_pollers_are_seen_to_poll(server: RedisServer, observer: RedisObserver) -> None:
    """500 waiters that try ten times a second cannot look idle."""
    sample = await measured(server, observer, "redis-py", "I", seconds=2.0)
    assert sample.connections is not None
    assert sample.connections > 100  # one each for as many as ever tried at the same moment
    assert sample.commands is not None
    assert sample.commands > 100


async def test_limits_are_measured(server: RedisServer) -> None:
    rates = await limits.measure(server.url)
    assert all(rate > 0 for rate in rates.values())
    assert rates["pair -P 64"] < rates["SET -P 64"]
    assert rates["own scripts -P 64"] < rates["PING -P 64"]


def test_a_distant_server_is_distant(server: RedisServer) -> None:
    with far_away(server.url, 0.02) as url:
        assert limits.round_trip(url, count=10) > 0.01


def _until(trace: Wire, mark: bytes) -> Iterator[bytes]:
    while True:
        line = trace.read()
        assert isinstance(line, bytes)
        if mark in line:
            return
        yield line


async def _close(adapter: object) -> None:
    if isinstance(wire := getattr(adapter, "wire", None), Wire):
        wire.close()
    else:
        await adapter._client.aclose()  # type: ignore[attr-defined]
