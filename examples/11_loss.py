"""The lock is taken away while its block runs: the body is cancelled, and LockLostError leaves the block."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


async def long_work(locks: aiodlock.LockClient, started: asyncio.Event) -> None:
    async with locks.lock("import"):
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("the body is cancelled: stop writing, undo what is half done")
            raise


async def main() -> None:
    async with aiodlock.connect(URL, name="worker") as locks, aiodlock.connect(URL, name="admin") as admin:
        started = asyncio.Event()
        work = asyncio.create_task(long_work(locks, started))
        await started.wait()
        print("admin takes it away")
        await admin.lock("import").force_release()
        try:
            await work
        except aiodlock.LockLostError as error:
            print(f"lost {error.key!r}: {error.reason}")

        lost = asyncio.Event()
        lock = locks.lock("export", max_hold=0.1, on_lost=lambda hold: lost.set())  # told, not cancelled
        try:
            async with lock as hold:
                await lost.wait()
                print(f"the body goes on, and can look: hold.lost is {hold.lost}")
        except aiodlock.LockLostError as error:
            print(f"lost {error.key!r}: {error.reason}")


asyncio.run(main())
