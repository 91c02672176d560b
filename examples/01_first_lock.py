"""Five customers, one lamp: exactly one of them gets it."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


async def buy(locks: aiodlock.LockClient, customer: int, shelf: list[str]) -> None:
    async with locks.lock("lamp", ttl=10, wait=5):
        if shelf:
            await asyncio.sleep(0.01)  # ask the bank; without the lock others would look at the shelf meanwhile
            print(f"customer {customer} gets the {shelf.pop()}")
        else:
            print(f"customer {customer} is too late")


async def main() -> None:
    shelf = ["red lamp"]
    async with aiodlock.connect(URL) as locks:
        await asyncio.gather(*(buy(locks, customer, shelf) for customer in range(5)))


asyncio.run(main())
