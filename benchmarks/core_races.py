"""aiodlock on ``memory://`` against asyncio's own, in one process on one loop: what the core costs on top of a queue.

Both sides run the same loop. Ours also reads the fence, so that it cannot be left out. A race begins with everybody
parked behind a held lock and ends when the last task is through.

A section too short for two to meet in it proves nothing. Such a race is followed by a proof: the same lock in sections
that last one step of the loop, not timed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiodlock import Lock, LockClient, connect
from benchmarks.figures import jain

__all__ = ["RACES", "Lap", "Proof", "Race", "lap", "prove_entering", "prove_reading", "prove_running", "proven"]

clock = time.perf_counter

Visit: TypeAlias = Callable[[Any, "Course", int], Awaitable[None]]  # with a lock of its side
Proof: TypeAlias = Callable[[LockClient, "Course", int], Awaitable[None]]


@dataclass(slots=True)
class Course:
    """What the tasks of one lap share."""

    end: float
    counts: list[int]
    inside: int = 0
    readers: int = 0
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


# --- many inside at once -------------------------------------------------------------------------------------


async def _with_others(lock: AbstractAsyncContextManager[object], course: Course, me: int) -> None:
    while clock() < course.end:
        for _ in range(_IN_A_ROW):
            async with lock:
                pass
        course.counts[me] += _IN_A_ROW
        await asyncio.sleep(0)  # a section that nobody waits for does not yield; a step for each would be measured too


async def _among_few(lock: AbstractAsyncContextManager[object], course: Course, me: int) -> None:
    while clock() < course.end:
        async with lock:
            course.inside += 1
            course.violations += course.inside > _PERMITS
            await asyncio.sleep(0)
            course.inside -= 1
        course.counts[me] += 1


class _NoLock:
    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *error: object) -> None:
        pass


_PERMITS = 10
_IN_A_ROW = 16


# --- proofs --------------------------------------------------------------------------------------------------


async def prove_entering(locks: LockClient, course: Course, me: int) -> None:
    """Everybody meets in the lock."""
    await _lasting_ours(0)(locks.lock("proof"), course, me)


async def prove_running(locks: LockClient, course: Course, me: int) -> None:
    """Every second task enters, the others run functions, which must find nobody inside."""

    def section() -> None:
        course.violations += course.inside
        course.counts[me] += 1

    if me % 2:
        await prove_entering(locks, course, me)
    while clock() < course.end:
        await locks.lock("proof").run(section)


async def prove_reading(locks: LockClient, course: Course, me: int) -> None:
    """Every tenth task writes, and must be alone; readers must find no writer."""
    lock = locks.rwlock("proof")
    while clock() < course.end:
        if me % 10:
            async with lock.read():
                course.readers += 1
                course.violations += course.inside
                await asyncio.sleep(0)
                course.readers -= 1
        else:
            async with lock.write():
                course.enter()
                course.violations += course.readers
                await asyncio.sleep(0)
                course.leave()
        course.counts[me] += 1


@dataclass(frozen=True, slots=True)
class Race:
    """One comparison and the ratio that ours must reach."""

    name: str
    tasks: int
    floor: float | None  # None: its ratio is shown only
    theirs: Visit
    ours: Visit
    rival: str = "asyncio.Lock"
    proof: Proof | None = None  # None: its own sections last long enough for two to meet
    longer: float = 1.0  # times the window: with four or five turns each, a perfect queue has a Jain of 0.988


RACES = (
    Race("1,000 tasks, empty section", 1000, 0.9, _empty_theirs, _empty_ours, proof=prove_entering),
    Race("100 tasks, empty section", 100, 1.0, _empty_theirs, _empty_ours, proof=prove_entering),
    Race("100 tasks, 1 ms section", 100, 0.97, _lasting_theirs(0.001), _lasting_ours(0.001), longer=3.0),
    Race("1,000 tasks, run(fn)", 1000, 2.5, _function_theirs, _function_ours, proof=prove_running),
    Race("1,000 tasks, section of one loop step", 1000, None, _lasting_theirs(0), _lasting_ours(0)),
    Race("100 tasks, semaphore of 10", 100, None, _among_few, _among_few, "asyncio.Semaphore"),
    Race("100 readers inside together", 100, 1 / 1.1, _empty_ours, _with_others, "our lock's hand-off", prove_reading),
    Race("100 readers inside together", 100, None, _with_others, _with_others, "no lock", prove_reading),
)


async def lap(race: Race, *, ours: bool, seconds: float) -> Lap:
    """Let one side run for *seconds*, or longer where the race needs it."""
    async with connect("memory://") as locks, AsyncExitStack() as kept:
        lock = await _ours(race, locks, kept) if ours else _rival(race, locks)
        visit = race.ours if ours else race.theirs
        timed = await _ride(lock, lambda course, me: visit(lock, course, me), race.tasks, seconds * race.longer)
        return replace(timed, violations=await proven(race.proof, locks)) if ours and race.proof else timed


async def proven(proof: Proof, locks: LockClient, *, seconds: float = 0.1) -> int:
    """Return how often two met who must not."""
    lap = await _ride(_NoLock(), lambda course, me: proof(locks, course, me), 100, seconds)
    return lap.violations


async def _ours(race: Race, locks: LockClient, kept: AsyncExitStack) -> AbstractAsyncContextManager[object]:
    if race.ours is _among_few:
        return locks.semaphore("core", permits=_PERMITS)
    if race.ours is _with_others:
        reader = locks.rwlock("core").read()
        await kept.enter_async_context(await reader.acquire())  # so that everybody joins a place that is inside
        return locks.rwlock("core").read()
    return locks.lock("core")


def _rival(race: Race, locks: LockClient) -> AbstractAsyncContextManager[object]:
    rivals: dict[str, Callable[[], AbstractAsyncContextManager[object]]] = {
        "asyncio.Lock": asyncio.Lock,
        "asyncio.Semaphore": lambda: asyncio.Semaphore(_PERMITS),
        "our lock's hand-off": lambda: locks.lock("core"),
        "no lock": _NoLock,
    }
    return rivals[race.rival]()


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
