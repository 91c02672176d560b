"""Every command against a server that other processes see, one process against the other."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import aiodlock
from aiodlock.testing.servers import Server
from tests.integration.cli.support import AIODLOCK, Cli, OnScreen, assert_one_line, heeding, until_signalled

Holding = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def holding(url: str, tmp_path: Path) -> Iterator[Holding]:
    """Start ``hold`` around a command that runs until it is ended; return when it holds."""
    started: list[subprocess.Popen[str]] = []

    def start(key: str, *options: str, after: str = "") -> subprocess.Popen[str]:
        inside = ("sh", "-c", f"echo inside; {after}") if after else until_signalled("print('inside', flush=True)")
        command = [*heeding(signal.SIGINT, signal.SIGTERM), *AIODLOCK, "hold", url, key, *options, "--", *inside]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n", process.communicate()[1]
        return process

    yield start
    for process in started:
        process.terminate()  # passed on to the command
        process.communicate(timeout=30)


def test_inspect_shows_who_holds(cli: Cli, url: str, holding: Holding) -> None:
    """As a table and as JSON, for the keys asked for."""
    process = holding("order:42")
    holding("report")
    table = cli("inspect", url)
    assert table.returncode == 0
    assert all(word in table.stdout for word in ("order:42", "report", "inside", f":{process.pid}", "lock"))
    assert "\x1b" not in table.stdout
    (row,) = json.loads(cli("inspect", url, "order:*", "--json").stdout)
    assert (row["key"], row["kind"], row["inside"], row["owner"].endswith(f":{process.pid}")) == (
        ("order:42", "lock", True, True)
    )
    assert json.loads(cli("inspect", url, "nothing:*", "--json").stdout) == []
    assert cli("inspect", url, "nothing:*").stdout == "nobody holds or waits for 'nothing:*'\n"


async def test_inspect_does_not_obey_names(cli: Cli, url: str) -> None:
    """A client's name or key that would clear the screen is shown, not done."""
    async with aiodlock.connect(url, name="\x1b[2Jboo[/red]") as locks, locks.lock("[bold]k"):
        shown = cli("inspect", url).stdout
    assert "�[2Jboo[/red]" in shown
    assert "[bold]k" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("options", [("--json",), ()])
def test_inspect_watches_until_interrupted(url: str, holding: Holding, options: tuple[str, ...]) -> None:
    """Without a terminal one look follows the other; interrupted, the status is 130."""
    holding("k")
    command = [*AIODLOCK, "inspect", url, "k", "--watch", "--every", "0.05", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = 0
        while seen < 3:
            line = process.stdout.readline()
            assert line
            seen += "lock" in line
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 130


def test_inspect_watches_on_a_terminal(url: str, holding: Holding, screen: OnScreen) -> None:
    """The table is drawn in place: the cursor goes up before the next one."""
    holding("k")
    shown = screen(*AIODLOCK, "inspect", url, "--watch", "--every", "0.05")
    shown.expect("inside")
    shown.expect(r"\x1b\[\d*A")
    shown.expect("inside")
    shown.press("\x03")
    assert shown.wait() == 130


def test_a_second_hold_waits_as_long_as_it_may(cli: Cli, url: str, holding: Holding) -> None:
    """Then it says who holds, with a status of its own, and runs nothing."""
    process = holding("k")
    for wait in ("0", "0.2"):
        ended = cli("hold", url, "k", "--wait", wait, "--", "echo", "ran")
        assert_one_line(ended, 124, "'k'", f":{process.pid}", "--wait", "aiodlock inspect")


def test_a_second_hold_gets_in_when_the_first_ends(cli: Cli, url: str, holding: Holding) -> None:
    """With a larger fence."""
    first = holding("k", after="echo $AIODLOCK_FENCE")
    second = cli("hold", url, "k", "--wait", "30", "--", "sh", "-c", "echo $AIODLOCK_FENCE; exit 3")
    assert second.returncode == 3
    assert first.stdout is not None
    assert int(second.stdout) > int(first.stdout.readline())  # communicate() would lose what was read ahead


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_frees_the_lock(
    cli: Cli, url: str, holding: Holding, number: signal.Signals
) -> None:
    """The status is the command's, and nobody is left in line."""
    process = holding("k")
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert cli("inspect", url, "k", "--json").stdout == "[]\n"


def test_release_wants_to_be_sure(cli: Cli, url: str, holding: Holding) -> None:
    """Without --force it names the holder and does nothing; of a free lock it says so."""
    process = holding("k")
    assert_one_line(cli("release", url, "k"), 1, "'k'", f":{process.pid}", "--force")
    assert process.poll() is None
    ended = cli("release", url, "other", "--force")
    assert (ended.returncode, ended.stdout) == (0, "nobody holds 'other'\n")


def test_who_loses_the_lock_loses_the_command(cli: Cli, url: str, holding: Holding) -> None:
    """Released by force, the other process ends its command and says why."""
    process = holding("k", "--grace", "0.1", after="trap '' TERM; sleep 100")
    ended = cli("release", url, "k", "--force")
    assert (ended.returncode, "'k' was taken from" in ended.stdout) == (0, True)
    _assert_lost(process)


def _assert_lost(process: subprocess.Popen[str]) -> None:
    """Check that it ends, says why in one line, and has a status of its own."""
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 125
    assert said.startswith("aiodlock: lock 'k' was lost")
    assert said.endswith("the command was ended\n")
    assert said.count("\n") == 1


def test_a_dead_server_ends_the_command(server: Server, holding: Holding) -> None:
    """Without an answer the lease ends, and with it the command."""
    process = holding("k", "--ttl", "1")
    server.crash()
    _assert_lost(process)


def test_a_frozen_hold_ends_its_command_when_it_goes_on(cli: Cli, url: str, holding: Holding) -> None:
    """Another has the lock meanwhile; going on, the first thing is to end the command."""
    process = holding("k", "--ttl", "1")
    process.send_signal(signal.SIGSTOP)
    assert cli("hold", url, "k", "--wait", "30", "--", "true").returncode == 0
    process.send_signal(signal.SIGCONT)
    _assert_lost(process)


HELD: dict[str, Callable[[aiodlock.LockClient], Awaitable[aiodlock.Hold]]] = {
    "lock": lambda locks: locks.lock("k:0").acquire(),
    "rwlock": lambda locks: locks.rwlock("k:0").read().acquire(),
    "semaphore": lambda locks: locks.semaphore("k:0", permits=2).acquire(),
    "election": lambda locks: locks.election("k:0").leadership().acquire(),
    "segment": lambda locks: locks.segmented("k", segments=2).segment(0).acquire(),
}


@pytest.mark.parametrize("kind", HELD)
async def test_release_knows_what_inspect_shows(cli: Cli, url: str, kind: str) -> None:
    """Of whatever kind it is, it need not be said: the holder loses it."""
    async with aiodlock.connect(url, name="us") as locks:
        hold = await HELD[kind](locks)
        assert kind in cli("inspect", url, "k:0").stdout
        ended = cli("release", url, "k:0", "--force")
        assert (ended.returncode, ended.stdout) == (0, f"{kind} 'k:0' was taken from us\n")
        await _expect_lost(hold)


async def test_release_of_many_kinds_and_holders(cli: Cli, url: str) -> None:
    """Where a key is held as several kinds one has to be named; all its readers, or all who have permits, lose it."""
    async with aiodlock.connect(url) as one, aiodlock.connect(url) as two:
        holds = [await HELD[kind](locks) for kind in ("rwlock", "semaphore") for locks in (one, two)]
        assert_one_line(cli("release", url, "k:0", "--force"), 1, "rwlock and as semaphore", "--kind")
        for kind in ("rwlock", "semaphore"):
            assert " and 1 more" in cli("release", url, "k:0", "--kind", kind, "--force").stdout
        for hold in holds:
            await _expect_lost(hold)


async def _expect_lost(hold: aiodlock.Hold) -> None:
    await hold.wait_lost()
    with pytest.raises(aiodlock.LockLostError):
        await hold.release()


def test_doctor_reaches_it(cli: Cli, url: str) -> None:
    """Everything is well, and every process sees it."""
    ended = cli("doctor", url)
    assert ended.returncode == 0
    assert "ok       seen by      every process" in ended.stdout


def test_seckill_sells_on_it(cli: Cli, url: str) -> None:
    """The same story: only the row without a lock oversells."""
    sizes = ("--buyers", "200", "--stock", "100", "--concurrency", "50", "--segments", "4", "--work", "0")
    ended = cli("seckill", "--url", url, *sizes, "--json")
    assert ended.returncode == 0, ended.stderr
    assert [way["oversold"] > 0 for way in json.loads(ended.stdout)["ways"]] == [True, False, False, False]
