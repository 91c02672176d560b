"""Every command: its help, and one line with the next step for whatever is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiodlock.cli import main
from aiodlock.testing.servers import free_ports
from tests.integration.cli.support import SERVERS, Cli, assert_one_line


def _run(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: the fastest way to make many mistakes."""
    status = main.run(arguments)
    said = capfd.readouterr()
    return subprocess.CompletedProcess(arguments, status, said.out, said.err)


def _named(value: object) -> str:
    return " ".join(value)[:60] if isinstance(value, list) else str(value)


COMMANDS = ("seckill", "inspect", "hold", "release", "doctor")


def test_alone_it_shows_every_command(cli: Cli) -> None:
    """No argument is no error: the list of commands, status 0."""
    ended = cli()
    assert ended.returncode == 0
    assert all(command in ended.stdout for command in (*COMMANDS, "bench"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Its help names it and says how it is used."""
    shown = _run([command, "--help"], capfd)
    assert shown.returncode == 0
    assert f"Usage: aiodlock {command}" in shown.stdout


def test_the_script_is_installed(tmp_path: Path) -> None:
    """``aiodlock`` is the same as ``python -m aiodlock``."""
    script = Path(sys.executable).parent / "aiodlock"
    ended = subprocess.run([script, "--version"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0
    assert ended.stdout.startswith("aiodlock ")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["seckil"], 2, ["seckil", "aiodlock --help"]),
        (["seckill", "--nope"], 2, ["--nope", "aiodlock seckill --help"]),
        (["seckill", "--buyers", "many"], 2, ["--buyers", "aiodlock seckill --help"]),
        (["seckill", "--buyers", "0"], 2, ["--buyers", "1"]),
        (["seckill", "--segments", "1025"], 2, ["--segments", "1024"]),
        (["seckill", "--work", "-1"], 2, ["--work"]),
        (["seckill", "--work", "inf"], 2, ["--work", "60"]),
        (["seckill", "--url", "carrier-pigeon://loft"], 1, ["carrier-pigeon://", "memory://"]),
        (["seckill", "--url", "memory://a/b"], 1, ["memory://name"]),
        (["inspect"], 2, ["aiodlock inspect --help"]),
        (["inspect", "localhost"], 1, ["a URL without a scheme", "memory://"]),
        (["inspect", "memory://", "*", "--every", "0"], 2, ["--every"]),
        (["inspect", "memory://"], 1, ["memory://", "inside one process", "URL of a server"]),
        (["inspect", "memory://shared"], 1, ["memory://", "inside one process"]),
        (["hold", "memory://", "k"], 2, ["COMMAND", "aiodlock hold --help"]),
        (["hold", "memory://", "k", "--", "true"], 125, ["memory://", "inside one process"]),
        (["hold", "carrier-pigeon://loft", "k", "--", "true"], 125, ["carrier-pigeon://"]),
        (["hold", "memory://", "k", "--ttl", "soon", "--", "true"], 2, ["--ttl"]),
        (["release", "memory://", "k", "--force"], 1, ["memory://", "inside one process"]),
        (["release", "memory://", "k", "--kind", "door"], 2, ["--kind", "rwlock"]),
        (["doctor"], 2, ["aiodlock doctor --help"]),
        (["doctor", "carrier-pigeon://loft"], 1, ["carrier-pigeon://", "memory://"]),
    ],
    ids=_named,
)
def test_a_mistake_is_one_line(
    arguments: list[str], status: int, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """It says what is wrong and what to do; there is no traceback and no usage screen."""
    assert_one_line(_run(arguments, capfd), status, *words)


@pytest.mark.parametrize("command", [*COMMANDS, "bech"])
def test_a_mistake_of_a_process_is_one_line(cli: Cli, command: str) -> None:
    """The same, as a user meets it."""
    assert_one_line(cli(command, "--no-such-option"), 2, "aiodlock", "--help")


@pytest.mark.parametrize("scheme", SERVERS)
@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["inspect", "URL"], 1, ["check that the server runs"]),
        (["hold", "URL", "k", "--", "true"], 125, ["check that the server runs"]),
        (["release", "URL", "k", "--force"], 1, ["check that the server runs"]),
        (["doctor", "URL"], 1, ["check that the server runs"]),
        (["seckill", "--url", "URL"], 1, ["check that the server runs"]),
        (["hold", "URL", "", "--", "true"], 125, ["1 to 255"]),
        (["hold", "URL", "k\n", "--", "true"], 125, ["control character"]),
        (["hold", "URL", "k", "--ttl", "0.01", "--", "true"], 125, ["ttl=0.01", "0.05"]),
        (["hold", "URL", "k", "--wait", "-1", "--", "true"], 125, ["wait=-1"]),
        (["release", "URL", "k" * 256, "--force"], 1, ["256 bytes"]),
    ],
    ids=_named,
)
def test_without_a_server_it_is_one_line(
    scheme: str, arguments: list[str], status: int, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A server that is not there is named with what to check; a wrong key or number is told without asking it."""
    url = f"{scheme}://127.0.0.1:{free_ports(1)[0]}"
    assert_one_line(_run([url if word == "URL" else word for word in arguments], capfd), status, *words)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_how_to_install_it(missing: str, tmp_path: Path) -> None:
    """One line with the command, status 1."""
    program = f"import sys; sys.modules[{missing!r}] = None; from aiodlock.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert_one_line(ended, 1, missing, "pip install 'aiodlock[cli]'")


def test_an_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A bug of ours is no traceback either: it says how to see one."""

    def app(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug\nof two lines")

    monkeypatch.setattr(main, "app", app)
    assert main.run(["doctor", "memory://"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("aiodlock: unexpected ZeroDivisionError: a bug of two lines; python -X dev")
    assert said.count("\n") == 1


def test_a_closed_pipe_is_no_traceback() -> None:
    """Who reads only the beginning, as head does, sees no error."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "aiodlock", "doctor", "memory://"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "Traceback" not in ended.stderr
