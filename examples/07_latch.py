"""Nobody serves before everybody is warm: a latch of three, counted down by three nodes."""

import asyncio
import os
import uuid

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")
ROLLOUT = f"warm-up:{uuid.uuid4()}"  # a latch opens once: the next rollout takes another key


async def node(name: str, log: list[str]) -> None:
    async with aiodlock.connect(URL, name=name) as locks:
        latch = locks.latch(ROLLOUT, count=3, ttl=10)
        await asyncio.sleep(0.01)  # load models, fill caches
        log.append("warm")
        await latch.count_down()
        await latch.opened(wait=5)
        log.append("serves")


async def main() -> None:
    log: list[str] = []
    async with aiodlock.connect(URL) as locks:
        latch = locks.latch(ROLLOUT, count=3, ttl=10)
        print(f"to go: {await latch.count()}")
        await asyncio.gather(*(node(f"node-{n}", log) for n in (1, 2, 3)))
        print(*log)
        print(f"to go: {await latch.count()}")
        await latch.opened()  # open for good: whoever comes later does not wait


asyncio.run(main())
