"""aiodlock on ``memory://`` against asyncio.Lock, in one process on one loop: what the core costs on top of a queue.

Both sides run the same loop. Ours also reads the fence, so that it cannot be left out. A race begins with everybody
parked behind a held lock and ends when the last task is through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiodlock import Lock, connect
from benchmarks.figures import jain

__all__ = ["RACES", "Lap", "Race", "lap"]

clock = time.perf_counter

Visit: TypeAlias = Callable[[Any, "Course", int], Awaitable[None]]  # with a lock of its side


@dataclass(slots=True)
class Course:
    """What the tasks of one lap share."""

    end: float
    counts: list[int]
    inside: int = 0
    violations: int = 0
    last_fence: int = 0

    def enter(self) -> None:
        self.inside += 1
        self.violations += self.inside != 1

    def leave(self) -> None:
        self.inside -= 1


@dataclass(frozen=True, slots=True)
class Lap:
    """One side's result of one round."""

    per_second: float
    cpu: float  # seconds per section
    jain: float
    violations: int


# --- empty section -------------------------------------------------------------------------------------------


async def _empty_theirs(lock: asyncio.Lock, course: Course, me: int) -> None:
    while clock() < course.end:
        async with lock:
            pass
        course.counts[me] += 1


async def _empty_ours(lock: Lock, course: Course, me: int) -> None:
    while clock() < course.end:
        async with lock as hold:
            hold.fence  # noqa: B018 - reading it is part of the work
        course.counts[me] += 1


# --- sections that last, watched -----------------------------------------------------------------------------


def _lasting_theirs(section: float) -> Visit:
    async def visit(lock: asyncio.Lock, course: Course, me: int) -> None:
        while clock() < course.end:
            async with lock:
                course.enter()
                await asyncio.sleep(section)
                course.leave()
            course.counts[me] += 1

    return visit


def _lasting_ours(section: float) -> Visit:
    async def visit(lock: Lock, course: Course, me: int) -> None:
        while clock() < course.end:
            async with lock as hold:
                course.enter()
                course.violations += hold.fence <= course.last_fence
                course.last_fence = hold.fence
                await asyncio.sleep(section)
                course.leave()
            course.counts[me] += 1

    return visit


# --- plain functions under the lock --------------------------------------------------------------------------


async def _function_theirs(lock: asyncio.Lock, course: Course, me: int) -> None:
    def section() -> None:
        course.counts[me] += 1

    while clock() < course.end:
        async with lock:
            section()


async def _function_ours(lock: Lock, course: Course, me: int) -> None:
    def section() -> None:
        course.counts[me] += 1

    while clock() < course.end:
        await lock.run(section)


@dataclass(frozen=True, slots=True)
class Race:
    """One comparison and the ratio that ours must reach."""

    name: str
    tasks: int
    floor: float | None  # None: run for its violations
    theirs: Visit
    ours: Visit
    longer: float = 1.0  # times the window: with four or five turns each, a perfect queue has a Jain of 0.988


RACES = (
    Race("1,000 tasks, empty section", 1000, 0.9, _empty_theirs, _empty_ours),
    Race("100 tasks, empty section", 100, 1.0, _empty_theirs, _empty_ours),
    Race("100 tasks, 1 ms section", 100, 0.97, _lasting_theirs(0.001), _lasting_ours(0.001), longer=3.0),
    Race("1,000 tasks, run(fn)", 1000, 2.5, _function_theirs, _function_ours),
    Race("1,000 tasks, section of one loop step", 1000, None, _lasting_theirs(0), _lasting_ours(0)),
)


async def lap(race: Race, *, ours: bool, seconds: float) -> Lap:
    """Let one side run for *seconds*, or longer where the race needs it."""
    seconds *= race.longer
    if not ours:
        theirs = asyncio.Lock()
        return await _ride(theirs, lambda course, me: race.theirs(theirs, course, me), race.tasks, seconds)
    async with connect("memory://") as locks:
        lock = locks.lock("core")
        return await _ride(lock, lambda course, me: race.ours(lock, course, me), race.tasks, seconds)


async def _ride(
    gate: AbstractAsyncContextManager[object],
    visit: Callable[[Course, int], Awaitable[None]],
    tasks: int,
    seconds: float,
) -> Lap:
    course = Course(end=float("inf"), counts=[0] * tasks)
    async with gate:
        visitors = [asyncio.ensure_future(visit(course, me)) for me in range(tasks)]
        await asyncio.sleep(0)  # one step takes every task to the door
        start, cpu = clock(), time.process_time()
        course.end = start + seconds
    await asyncio.gather(*visitors)
    took, sections = clock() - start, sum(course.counts)
    return Lap(sections / took, (time.process_time() - cpu) / sections, jain(course.counts), course.violations)
