"""The worker's half of a crowd: tasks that enter, look around, leave and come again until the window closes."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from array import array
from collections.abc import Awaitable, Callable

from benchmarks.channel import Message
from benchmarks.figures import thin
from benchmarks.scenarios.base import Station, clock

__all__ = ["Visits", "key"]

_PROBE = 64  # every so many sections an empty one lasts a loop step, so that a second one inside can be seen
_SENT = 5_000  # waits that a process reports


class Visits:
    """What the tasks of one process share. Only sections that begin inside the window count."""

    def __init__(self, station: Station, *, keys: int, section: float) -> None:
        self._station, self._keys, self._section = station, keys, section
        self._start = self._end = math.inf
        self._counts = [0] * station.tasks
        self._waits = array("d")
        self._violations = 0
        self._errors: list[str] = []
        self._cpu = 0.0
        self._visitors: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Send every task to its door."""
        visit = self._run if self._station.peer.runs else self._enter
        self._visitors = [asyncio.create_task(self._watched(visit, worker)) for worker in range(self._station.tasks)]

    def open(self, window: Message) -> None:
        self._start, self._end = window["start"], window["end"]
        self._cpu = time.process_time()

    async def warm_up(self) -> None:
        """Let every task visit all its keys once: connecting is over, and no key is new, when the window opens."""
        await asyncio.gather(*(self._round(worker) for worker in range(self._station.tasks)))

    async def over(self) -> dict[str, object]:
        """Return what happened when the window has closed; whoever is still parked goes down with the process."""
        await asyncio.sleep(self._end - clock())
        return {
            "counts": self._counts,
            "waits": thin(self._waits, _SENT),
            "violations": self._violations,
            "errors": self._errors,
            "cpu": time.process_time() - self._cpu,
        }

    async def _watched(self, visit: Callable[[int], Awaitable[None]], worker: int) -> None:
        try:
            await visit(worker)
        except Exception as error:
            self._errors.append(repr(error))

    async def _round(self, worker: int) -> None:
        for number in self._route(worker):
            async with self._station.adapter.lock(key(number)):
                pass

    async def _enter(self, worker: int) -> None:
        token, slots, section = self._token(worker), self._station.guard.slots, self._section
        doors = [(number, self._station.adapter.lock(key(number))) for number in self._route(worker)]
        note, counts, served, probe = self._waits.append, self._counts, 0, 1
        for number, lock in itertools.cycle(doors):
            asked = clock()
            if asked >= self._end:
                return
            async with lock:
                got = clock()
                if got >= self._end:
                    return
                note(got - (asked if asked > self._start else self._start))  # noqa: FURB136 # a call costs too much here
                crowded = slots[number]  # see `Guard`: its two steps, written out so that we cost little beside a lock
                slots[number] = token
                probe -= 1
                if section or not probe:
                    probe = _PROBE
                    await asyncio.sleep(section)
                if crowded or slots[number] != token:
                    self._violations += 1
                slots[number] = 0
            counts[worker] = served = served + 1

    async def _run(self, worker: int) -> None:
        token, guard, run = self._token(worker), self._station.guard, self._station.adapter.run
        for number in itertools.cycle(self._route(worker)):
            asked = clock()
            if asked >= self._end:
                return

            def section(asked: float = asked, number: int = number) -> None:
                got = clock()
                if got >= self._end:
                    return
                self._waits.append(got - max(asked, self._start))
                crowded = guard.enter(number, token)
                self._violations += guard.leave(number, token) or crowded
                self._counts[worker] += 1

            await run(key(number), section)

    def _route(self, worker: int) -> range:
        """Return the keys a worker visits in turn: its own share of many, or the only one."""
        return range(worker % self._keys, self._keys, self._station.tasks)

    def _token(self, worker: int) -> int:
        return 1 + self._station.process * self._station.tasks + worker


def key(number: int) -> str:
    return f"bench-{number}"
