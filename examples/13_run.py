"""A plain function under the lock: the functions of many tasks run in one step, with no task switched between."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


class Shelf:
    """Ten lamps; selling one is plain code without await."""

    left = 10

    def sell(self) -> int:
        if self.left == 0:
            raise LookupError("sold out")
        self.left -= 1
        return 10 - self.left


async def main() -> None:
    shelf = Shelf()
    async with aiodlock.connect(URL, name="node-1") as one, aiodlock.connect(URL, name="node-2") as two:
        buyers = [locks.lock("shelf").run(shelf.sell) for locks in (one, two) for _ in range(100)]
        sold = await asyncio.gather(*buyers, return_exceptions=True)
    numbers = sorted(n for n in sold if isinstance(n, int))
    print(f"lamps sold: {numbers}")
    print(f"too late: {sum(isinstance(error, LookupError) for error in sold)}")


asyncio.run(main())
