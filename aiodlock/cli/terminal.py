"""Job control for the command that `hold` runs: it has a process group of its own, and the terminal while it runs."""

from __future__ import annotations

import os
import signal
from typing import Self

__all__ = ["Terminal", "signal_group"]


def signal_group(group: int, number: int) -> bool:
    """Send a signal to every process of *group*, if there is one; return whether its leader may be sent any.

    A command that has become another user's (sudo, setuid) may not.
    """
    try:
        os.killpg(group, number)
        os.kill(group, 0)  # killpg is content with any one of the group
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


class Terminal:
    """Our controlling terminal, lent to *group* as a shell lends it: its to read, and its to be interrupted from.

    Without a terminal, or in the background, nothing happens.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        try:
            self._file = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def __enter__(self) -> Self:
        self._lend()
        return self

    def __exit__(self, *_: object) -> None:
        self._give(os.getpgrp(), taken_from=self._group)
        if self._file >= 0:
            os.close(self._file)

    def look(self) -> None:
        """See to a command that has stopped; to be called when a child changed.

        Stopped from the terminal, we stop as well, with our whole job, and go on when the shell says so; a lease that
        ended meanwhile is noticed then. Stopped because it read before the terminal was lent, it goes on.
        """
        if self._file < 0 or not self._has_stopped():
            return
        if self._foreground() != os.getpgrp():
            self._give(os.getpgrp(), taken_from=self._group)
            os.kill(0, signal.SIGTSTP)
        self._lend()

    def _has_stopped(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._group, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:
            return False

    def _lend(self) -> None:
        if self._file >= 0:
            self._give(self._group, taken_from=os.getpgrp())
            signal_group(self._group, signal.SIGCONT)

    def _foreground(self) -> int | None:
        try:
            return os.tcgetpgrp(self._file)
        except OSError:  # there is none, or its window was closed
            return None

    def _give(self, group: int, *, taken_from: int) -> None:
        if self._foreground() != taken_from:
            return
        # Blocked, or the kernel stops whoever changes the foreground from the background.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            os.tcsetpgrp(self._file, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
