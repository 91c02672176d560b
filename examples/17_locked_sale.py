"""The same sale under locks: the stock is in your own database, each segment read and written by one at a time."""

import asyncio
import os

import aiodlock
from aiodlock.inventory import LockedSale

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


class Database:
    """What a shop has today: a number per segment, read and written in two steps."""

    def __init__(self, *left: int) -> None:
        self.left = list(left)

    async def sell(self, hold: aiodlock.SegmentHold) -> bool:
        left = self.left[hold.segment]
        if left == 0:
            return False
        await asyncio.sleep(0.001)  # others must not come between the read and the write
        self.left[hold.segment] = left - 1
        return True


async def main() -> None:
    database = Database(25, 0, 50, 25)
    async with aiodlock.connect(URL) as locks:
        sale = LockedSale(locks.segmented("lamp-locked", segments=4))
        sold = await asyncio.gather(*(sale.buy(f"buyer-{n}", database.sell) for n in range(200)))
    print(f"sold: {sum(sold)}, left: {database.left}")


asyncio.run(main())
