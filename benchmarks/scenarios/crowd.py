"""Many tasks enter and leave for the time of a window: the shape of U, C and M.

A contended run begins with everybody parked behind a held lock; an uncontended one when every task has visited each of
its keys once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.channel import Message
from benchmarks.figures import Sample, jain, quantile
from benchmarks.observer import Calls
from benchmarks.scenarios.base import Crew, Scenario, Station, clock
from benchmarks.scenarios.visits import Visits, key

__all__ = ["Crowd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd(Scenario):
    section: float = 0.0  # seconds inside

    @property
    def contended(self) -> bool:
        return self.keys == 1

    async def work(self, station: Station) -> None:
        visits = Visits(station, keys=self.keys, section=self.section)
        await (self._contend if self.contended else self._roam)(station, visits)
        await station.channel.tell("done", **await visits.over())

    async def _contend(self, station: Station, visits: Visits) -> None:
        gate = station.adapter.lock(key(0)) if station.process == 0 else None
        if gate is not None:
            await station.channel.hear("hold")
            await gate.__aenter__()
            await station.channel.tell("held")
        await station.channel.hear("park")
        visits.begin()
        await asyncio.sleep(0)  # one step takes every task to the door
        await station.channel.tell("parked")
        visits.open(await station.channel.hear("go"))
        if gate is not None:
            await gate.__aexit__(None, None, None)

    async def _roam(self, station: Station, visits: Visits) -> None:
        await station.channel.hear("park")
        await visits.warm_up()
        await station.channel.tell("parked")
        visits.open(await station.channel.hear("go"))
        visits.begin()

    async def conduct(self, crew: Crew, seconds: float) -> Sample:
        if self.contended:
            await crew.channels[0].tell("hold")
            await crew.channels[0].hear("held")
        await crew.tell("park")
        await crew.hear("parked")
        await crew.settle()
        before = crew.look()
        start = clock()
        await crew.tell("go", start=start, end=start + seconds)
        await asyncio.sleep(start + seconds - clock())
        after = crew.look()
        connections = after.connections if after else None
        return _sample(await crew.hear("done"), seconds, crew.calls(before, after), connections)


def _sample(reports: Sequence[Message], seconds: float, calls: Calls | None, connections: int | None) -> Sample:
    counts = [count for report in reports for count in report["counts"]]
    waits = [wait for report in reports for wait in report["waits"]]
    errors = [error for report in reports for error in report["errors"]]
    by_process = [sum(report["counts"]) for report in reports]
    sections = sum(counts)
    return Sample(
        value=sections / seconds,
        seconds=seconds,
        sections=sections,
        jain=jain(counts),
        starved=counts.count(0),
        slowest_to_fastest=min(by_process) / max(by_process) if len(by_process) > 1 and sections else None,
        violations=sum(report["violations"] for report in reports),
        wait_p50=quantile(waits, 0.5),
        wait_p99=quantile(waits, 0.99),
        connections=connections,
        commands=calls.sent / max(1, sections) if calls else None,
        in_scripts=calls.in_scripts / max(1, sections) if calls else None,
        server_us=calls.busy * 1e6 / max(1, sections) if calls else None,
        cpu_us=sum(report["cpu"] for report in reports) * 1e6 / max(1, sections),
        errors=len(errors),
        first_error=errors[0] if errors else "",
    )
