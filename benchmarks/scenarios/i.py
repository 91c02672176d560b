"""I: what do waiters cost that nobody serves? They are parked behind a held lock and left alone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from benchmarks.figures import Sample
from benchmarks.scenarios.base import Crew, Scenario, Station
from benchmarks.scenarios.visits import Visits, key

__all__ = ["SCENARIOS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle(Scenario):
    async def work(self, station: Station) -> None:
        channel, visits = station.channel, Visits(station, keys=self.keys, section=0.0)
        async with station.adapter.lock(key(0)):
            visits.begin()
            await asyncio.sleep(0)  # one step takes every task to the door
            await channel.tell("parked")
            await channel.hear("go")
            before = time.process_time()
            await channel.hear("stop")
            await channel.tell("done", cpu=time.process_time() - before)
            await channel.closed()  # everybody still parked

    async def conduct(self, crew: Crew, seconds: float) -> Sample:
        await crew.hear("parked")
        await crew.settle()
        before = crew.look()
        await crew.tell("go")
        await asyncio.sleep(seconds)
        after = crew.look()
        await crew.tell("stop")
        (report,) = await crew.hear("done")
        calls = crew.calls(before, after)
        return Sample(
            value=100 * report["cpu"] / seconds,
            seconds=seconds,
            connections=after.connections if after else None,
            commands=calls.sent / seconds if calls else None,
            in_scripts=calls.in_scripts / seconds if calls else None,
        )


def _idle(name: str, tasks: int, seconds: float) -> _Idle:
    return _Idle(
        name=name,
        question=f"{tasks:,} tasks parked on one key, client CPU",
        unit="% of a core",
        tasks=tasks,
        seconds=seconds,
        more_is_better=False,
        compares=False,  # nothing divided by nothing
    )


SCENARIOS = (_idle("I", 500, 10.0), _idle("I10000", 10_000, 30.0))
