"""Do not wait for ever: try once, or wait for a while, and see who holds it."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


async def main() -> None:
    async with aiodlock.connect(URL, name="web-1") as web, aiodlock.connect(URL, name="batch-7") as batch:
        report = web.lock("nightly-report")

        async with batch.lock("nightly-report"):
            if await report.try_acquire() is None:
                print("not free: come back later")
            try:
                await report.acquire(wait=0.1)
            except aiodlock.AcquireTimeoutError as error:
                print(error)
            print(f"locked: {await report.locked()}, by {await report.holder()}")

        if hold := await report.try_acquire():
            async with hold:
                print(f"free: {hold.owner} has it")
        print(f"locked: {await report.locked()}")


asyncio.run(main())
