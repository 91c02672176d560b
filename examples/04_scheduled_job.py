"""A job that one node runs: whoever leads runs it at every tick; the leader dies, and another one goes on."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


async def run_job(runs: list[str], node: str) -> None:
    await asyncio.sleep(0.01)
    runs.append(node)
    print(f"tick {len(runs)} ran on {node}")


async def node(name: str, runs: list[str]) -> None:
    async with aiodlock.connect(URL, name=name) as locks:
        election = locks.election("daily-report", ttl=2)  # a leader that is killed is replaced after its ttl
        async with election.leadership():  # the others wait here
            while len(runs) < 6:
                await asyncio.sleep(0.02)  # until the next tick
                await run_job(runs, name)
                if len(runs) == 3:
                    raise RuntimeError(f"{name} dies")  # leaving the block lets the next one in at once


async def main() -> None:
    runs: list[str] = []
    ended = await asyncio.gather(*(node(f"node-{n}", runs) for n in (1, 2, 3)), return_exceptions=True)
    print(*(error for error in ended if error))
    print(f"ticks: {len(runs)}, nodes that ran them: {len(set(runs))}")


asyncio.run(main())
