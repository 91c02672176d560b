"""A process that this one starts, signals by its pid, and never leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from aiodlock.testing import _reaper

__all__ = ["Child"]


class Child:
    """One running command in a session of its own, so that a Ctrl-C of the tests does not reach it first.

    Signals go to its process group, so that a wrapper script's server is meant as well. If this process dies,
    however it dies, the child is killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        output: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        with output.open("ab") as log:
            self._popen = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        _reaper.watch(self.pid)
        self._watched = True

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, as `subprocess` tells it; None while it runs."""
        code = self._popen.poll()
        if code is not None and self._watched:
            self._watched = False
            _reaper.forget(self.pid)
        return code

    @property
    def running(self) -> bool:
        return self.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        if self.running:  # and not waited for, so the pid is still its own
            os.killpg(self.pid, number)

    def pause(self) -> None:
        """Stop it in its tracks; returns when it stands still."""
        self.signal(signal.SIGSTOP)
        if self.running:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def wait(self, *, within: float) -> int:
        """Return the code it ended with, or raise `TimeoutError` if it still runs."""
        try:
            self._popen.wait(within)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} still runs after {within:g}s") from None
        return cast(int, self.returncode)

    def stop(self, *, grace: float = 5.0) -> None:
        """Ask it to end, and kill it if it has not within *grace* seconds; also when it is paused."""
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self.wait(within=grace)
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash does; returns when it is gone."""
        self.signal(signal.SIGKILL)
        self.wait(within=60.0)
