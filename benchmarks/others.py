"""How busy others kept the machine during a cell: all CPU time, less the workers', the server's and the harness's."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.observer import Observer

__all__ = ["Meter"]

_STAT = Path("/proc/stat")
_TOLD = _STAT.exists()


@dataclass(frozen=True, slots=True)
class Meter:
    """Started before a cell, read when its processes have ended; those that still run are not known to be ours."""

    observer: Observer | None
    since: float
    foreign: float

    @classmethod
    def start(cls, observer: Observer | None) -> Meter:
        return cls(observer, time.monotonic(), _foreign(observer))

    def cores(self) -> float | None:
        """Return how many cores others used since the start, or None where the system does not tell."""
        if not _TOLD:
            return None
        return max(0.0, (_foreign(self.observer) - self.foreign) / (time.monotonic() - self.since))


def _foreign(observer: Observer | None) -> float:
    """Return the CPU seconds of everybody that are not ours."""
    own = time.process_time() + (observer.cpu if observer else 0.0)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _all() - own - ended.ru_utime - ended.ru_stime


def _all() -> float:
    if not _TOLD:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, _STAT.read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
