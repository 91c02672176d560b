"""Retries belong into the background: the request ends with the order, a worker delivers it until it has worked."""

import asyncio
import os
import random

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


class Warehouse:
    """Another service: it often fails, sometimes after it has done its work, and knows each order by its id."""

    def __init__(self) -> None:
        self.shipped: dict[str, int] = {}
        self.calls = 0
        self._dice = random.Random(7)

    async def ship(self, order: str, quantity: int) -> None:
        self.calls += 1
        if self._dice.random() < 0.5:
            self.shipped[order] = quantity  # the same again changes nothing
        if self._dice.random() < 0.5:
            raise ConnectionError("no answer")
        self.shipped[order] = quantity


async def deliver(stock: aiodlock.SegmentedStock, warehouse: Warehouse, *, count: int) -> None:
    """Take entries from the outbox, oldest first; drop one only when all of it is delivered."""
    done, delivered = "", 0
    while delivered < count:
        for entry in await stock.read_outbox(done, most=10):
            for movement in entry.movements:
                while True:
                    try:
                        await warehouse.ship(movement.order, movement.quantity)
                        break
                    except ConnectionError:
                        await asyncio.sleep(0.001)  # nobody waits for this but the worker
                delivered += 1
            done = entry.id
    await stock.read_outbox(done, most=1)


async def main() -> None:
    warehouse = Warehouse()
    async with aiodlock.connect(URL) as locks:
        stock = locks.stock("book", segments=4, outbox=True)  # order and outbox entry are one step on the server
        await stock.load(100)
        worker = asyncio.create_task(deliver(stock, warehouse, count=100))
        await asyncio.gather(*(stock.take(buyer=f"buyer-{n}", order=f"order-{n}") for n in range(150)))
        await worker
        print(f"shipped: {len(warehouse.shipped)}, tried more often: {warehouse.calls > 100}")
        await stock.close()


asyncio.run(main())
