"""What the worker processes of these tests run."""

from __future__ import annotations

import asyncio
import signal

from aiodlock.testing.history import Recorder


def count(record: Recorder, *, to: int) -> None:
    for number in range(to):
        record("counted", number=number)


async def count_in_a_loop(record: Recorder, *, to: int) -> None:
    for number in range(to):
        await asyncio.sleep(0)
        record("counted", number=number)


def count_for_ever(record: Recorder) -> None:
    number = 0
    while True:
        record("counted", number=number)
        number += 1


def deaf(record: Recorder) -> None:
    """Ignore the polite signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record("ready")
    while True:
        signal.pause()


def fail(record: Recorder) -> None:
    record("ready")
    raise ValueError("no such thing")
