"""A helper process that kills our children when we die, even by SIGKILL.

It reads pids from a pipe whose other end only we hold: the kernel closes that end however we go. The kernel's own
"signal on parent's death" is of no use here: it fires when the *thread* that started the child ends.
"""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys
import threading
from typing import IO

__all__ = ["forget", "watch"]

_PROGRAM = """
import contextlib, os, signal, sys
handles = {}
for line in sys.stdin:
    pid = int(line[1:])
    with contextlib.suppress(ProcessLookupError):
        if line[0] == "+":
            handles[pid] = os.pidfd_open(pid)
        elif pid in handles:
            os.close(handles.pop(pid))
for pid, handle in handles.items():
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, 0)  # fails if the process is gone and its pid perhaps another's
        os.killpg(pid, signal.SIGKILL)
"""

_lock = threading.Lock()


def watch(pid: int) -> None:
    """Have the process group of *pid* killed when this process ends, unless it is forgotten before."""
    _tell(f"+{pid}\n")


def forget(pid: int) -> None:
    """Take back `watch`: the process has ended."""
    _tell(f"-{pid}\n")


def _tell(line: str) -> None:
    with _lock:
        _pipe().write(line)
        _pipe().flush()


@functools.cache
def _pipe() -> IO[str]:
    popen = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM], stdin=subprocess.PIPE, text=True, start_new_session=True
    )
    atexit.register(popen.communicate)  # closes the pipe and waits for the killing
    assert popen.stdin is not None
    return popen.stdin
