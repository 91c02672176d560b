"""Four graphics cards for two nodes: a job takes one or two of them, never more than there are."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


class Cards:
    """Counts how many are in use, and how many were at most."""

    used = most = 0

    def take(self, n: int) -> None:
        self.used += n
        self.most = max(self.most, self.used)


async def job(locks: aiodlock.LockClient, cards: Cards, needs: int) -> str:
    async with await locks.semaphore("gpu", permits=4).acquire(needs, wait=5) as permit:
        cards.take(permit.permits)
        await asyncio.sleep(0.01)
        cards.take(-permit.permits)
        return permit.permit


async def main() -> None:
    cards = Cards()
    async with aiodlock.connect(URL, name="node-1") as one, aiodlock.connect(URL, name="node-2") as two:
        jobs = [job(locks, cards, needs) for locks in (one, two) for needs in (1, 1, 2, 1, 2, 1)]
        permits = await asyncio.gather(*jobs)
    print(f"jobs: {len(jobs)}, permits with an id of their own: {len(set(permits))}")
    print(f"cards in use at most: {cards.most}")


asyncio.run(main())
