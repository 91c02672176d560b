"""W: how long from release in one process to being inside in another?

Two processes take turns. The pause before each release is random and longer than common poll periods, because a lock
that sleeps and tries again wakes up at a random point of its sleep.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from benchmarks.channel import Channel
from benchmarks.figures import Sample, quantile
from benchmarks.scenarios.base import Crew, Scenario, Station, clock
from benchmarks.scenarios.visits import key

__all__ = ["SCENARIOS"]

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.22  # seconds
_LEAST = 5  # hand-offs, however short the window


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relay(Scenario):
    async def work(self, station: Station) -> None:
        lock, channel = station.adapter.lock(key(0)), station.channel
        while True:
            await channel.hear("ask")
            await channel.tell("asking")
            await lock.__aenter__()
            await channel.tell("inside", at=clock())
            await channel.hear("give")
            at = clock()
            await lock.__aexit__(None, None, None)
            await channel.tell("gave", at=at)

    async def conduct(self, crew: Crew, seconds: float) -> Sample:
        giver, taker = crew.channels
        await _ask(giver)
        await giver.hear("inside")
        wakes, before, end = list[float](), crew.look(), clock() + seconds
        while clock() < end or len(wakes) < _LEAST:
            wakes.append(await _hand_over(giver, taker))
            giver, taker = taker, giver
        after = crew.look()
        calls = crew.calls(before, after)
        return Sample(
            value=(quantile(wakes, 0.5) or 0.0) * 1e6,
            seconds=seconds,
            sections=len(wakes),
            wait_p50=quantile(wakes, 0.5),
            wait_p99=quantile(wakes, 0.99),
            connections=after.connections if after else None,
            commands=calls.sent / len(wakes) if calls else None,
            in_scripts=calls.in_scripts / len(wakes) if calls else None,
        )


async def _ask(taker: Channel) -> None:
    await taker.tell("ask")
    await taker.hear("asking")


async def _hand_over(giver: Channel, taker: Channel) -> float:
    """Return the seconds from the release in one process to the entry in the other."""
    await _ask(taker)
    await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
    await giver.tell("give")
    gave = await giver.hear("gave")
    inside = await taker.hear("inside")
    return float(inside["at"] - gave["at"])


SCENARIOS = (
    _Relay(
        name="W",
        question="from release in one process to inside in another",
        unit="µs, median",
        processes=2,
        seconds=5.0,
        limit="blocking-socket",
        more_is_better=False,
        shared=True,
    ),
)
