"""G: does a long line make joining and leaving dearer? For locks with a ticket per waiter: compare G10000 with G10.

Tasks stand at the end of the line and give up again. What keeping the line alive costs by itself is measured before,
for as long, and taken off.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks.figures import Sample
from benchmarks.peers.base import Entry
from benchmarks.scenarios.base import Crew, Scenario, Station, clock
from benchmarks.scenarios.visits import Visits, key

__all__ = ["SCENARIOS"]

_AT_ONCE, _STAND = 20, 0.02  # tasks that come together, and the seconds they stay


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth(Scenario):
    async def work(self, station: Station) -> None:
        channel, lock = station.channel, station.adapter.lock(key(0))
        visits = Visits(station, keys=self.keys, section=0.0)
        async with lock:
            visits.begin()
            await asyncio.sleep(0)  # one step takes every task to the door
            await channel.tell("parked")
            end = (await channel.hear("stir"))["end"]
            stood = 0
            while not stood or clock() < end:
                stood += await _stand_and_give_up(lock)
            await channel.tell("done", stood=stood)
            await channel.closed()  # everybody still parked

    async def conduct(self, crew: Crew, seconds: float) -> Sample:
        await crew.hear("parked")
        await crew.settle()
        before = crew.look()
        await asyncio.sleep(seconds)
        quiet, start = crew.look(), clock()
        await crew.tell("stir", end=start + seconds)
        (report,) = await crew.hear("done")
        after = crew.look()
        idle, busy = crew.calls(before, quiet), crew.calls(quiet, after)
        spent = busy.busy - idle.busy * (clock() - start) / seconds if idle and busy else 0.0
        return Sample(
            value=spent * 1e6 / (2 * report["stood"]),
            seconds=seconds,
            sections=report["stood"],
            connections=after.connections if after else None,
        )


async def _stand_and_give_up(lock: Entry) -> int:
    async def stand() -> None:
        async with lock:
            pass

    tasks = [asyncio.create_task(stand()) for _ in range(_AT_ONCE)]
    await asyncio.sleep(_STAND)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return len(tasks)


def _growth(name: str, tasks: int) -> _Growth:
    return _Growth(
        name=name,
        question=f"join and leave at the end of a line of {tasks:,}",
        unit="µs of server time each",
        tasks=tasks,
        seconds=5.0,  # a few renewals of everybody, in both halves
        more_is_better=False,
        compares=False,  # with itself, at another length
        shared=True,
    )


SCENARIOS = (_growth("G10", 10), _growth("G10000", 10_000))
