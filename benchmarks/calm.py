"""How busy others keep this machine, looked at before each cell, while nothing of ours runs.

Waiting for calm is decided by the disturbance, before the measurement; never by its result.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

__all__ = ["others_load", "wait_for_calm"]

_STAT = Path("/proc/stat")
_TOLD = _STAT.exists()
_LOOK = 0.25  # seconds
_CALM = 0.15  # cores


async def others_load() -> float | None:
    """Return how many cores are in use, or None where the system does not tell."""
    if not _TOLD:
        return None
    before, start = _busy(), time.monotonic()
    await asyncio.sleep(_LOOK)
    return (_busy() - before) / (time.monotonic() - start)


async def wait_for_calm(*, within: float) -> float | None:
    """Return the load when it has become small, or when *within* seconds are over."""
    end = time.monotonic() + within
    while (load := await others_load()) is not None and load > _CALM and time.monotonic() < end:
        pass
    return load


def _busy() -> float:
    """Return the seconds that all cores together were in use since the start."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, _STAT.read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
