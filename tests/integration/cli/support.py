"""The command line as its users meet it: a process, its output, its exit status, and sometimes a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import pytest

from aiodlock.testing.servers import RedisServer, Server

AIODLOCK = (sys.executable, "-m", "aiodlock")

SERVERS: dict[str, type[Server]] = {"redis": RedisServer}  # what other processes see; the next one joins here

Cli = Callable[..., subprocess.CompletedProcess[str]]
OnScreen = Callable[..., "Screen"]


def assert_one_line(ended: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """Check that a command failed as ours do: this status, one line with these words, nothing else."""
    assert ended.returncode == status, ended
    assert ended.stderr.startswith("aiodlock: "), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not ended.stdout
    for word in words:
        assert word in ended.stderr


# Becomes the leader of a session whose terminal is its standard input, then the command.
_LOGIN = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Screen:
    """A command on a terminal of its own, whose screen is read and whose keys are pressed here."""

    def __init__(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        self._keys, there = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LOGIN, *command],
            stdin=there,
            stdout=there,
            stderr=there,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | (env or {}),
        )
        os.close(there)
        self._shown = ""
        self._read = 0

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._keys)

    def press(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def expect(self, pattern: str, *, within: float = 30.0) -> re.Match[str]:
        """Return as soon as *pattern* is on the screen, after what was expected before."""
        end = time.monotonic() + within
        while not (found := re.compile(pattern).search(self._shown, self._read)):
            if not self._more(end - time.monotonic()):
                pytest.fail(f"{pattern!r} was not shown, but {self._shown[self._read :]!r}", pytrace=False)
        self._read = found.end()
        return found

    def wait(self, *, within: float = 30.0) -> int:
        """Return the exit status; what is shown until then can still be expected."""
        end = time.monotonic() + within
        while self._more(end - time.monotonic()):
            pass
        return self._process.wait(max(0.0, end - time.monotonic()))

    def _more(self, seconds: float) -> bool:
        if not select.select([self._keys], [], [], max(0.0, seconds))[0]:
            return False
        try:
            shown = os.read(self._keys, 65_536)
        except OSError:  # the last process has closed the other side
            return False
        self._shown += shown.decode(errors="replace")
        return bool(shown)


def heeding(*numbers: signal.Signals) -> tuple[str, ...]:
    """Return what starts a command that heeds these signals: whoever runs the suite may have them ignored."""
    return ("env", f"--default-signal={','.join(number.name[3:] for number in numbers)}")


def until_signalled(first: str) -> tuple[str, ...]:
    """Return a command that does *first* and then stays until a signal ends it.

    Not a shell: between two commands it may swallow the signal.
    """
    return (sys.executable, "-c", f"import signal; signal.signal(2, signal.SIG_DFL); {first}; signal.pause()")
