"""The parts of a sale that runs in several processes: shops, the relay, the writer. Each may be killed at any time.

Run as ``python -m aiodlock.cli.parts ROLE NUMBER``, with the sale as JSON on standard input; it prints JSON lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from aiodlock._core.stock import Sale as Answer
from aiodlock.cli.course import bin_of
from aiodlock.client import LockClient, connect
from aiodlock.errors import BackendUnavailableError
from aiodlock.inventory.stock import SegmentedStock

__all__ = ["UNAVAILABLE", "Sale", "main", "order_of"]

UNAVAILABLE = 75  # the status of a part whose server is not there: begin it again a little later

_TELL_EVERY = 0.1


def order_of(buyer: int) -> str:
    """Return the id of a buyer's order."""
    return f"order-{buyer}"


@dataclass(frozen=True, slots=True)
class Sale:
    """What is sold, to how many, and where it is kept, published and written down."""

    key: str
    backend: str
    orders: str  # host:port of Kafka
    into: str
    stock: int
    buyers: int
    shops: int
    segments: int
    concurrency: int

    @property
    def topic(self) -> str:
        return self.key.replace(":", ".")

    def stock_of(self, locks: LockClient) -> SegmentedStock:
        """Return its stock."""
        return locks.stock(self.key, segments=self.segments, once_per_buyer=True, outbox=True, patience=60.0)

    async def buy(self, stock: SegmentedStock, buyer: int) -> Answer:
        """Ask for what a buyer wants: the same each time."""
        return await stock.take(buyer=f"buyer-{buyer}", order=order_of(buyer))

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()


async def _shop(sale: Sale, number: int) -> None:
    """Serve every n-th buyer. Killed and begun again it serves them all again: an order counts once."""
    buyers = iter(range(number, sale.buyers, sale.shops))
    served, waits = 0, Counter[int]()
    async with connect(sale.backend) as locks:
        stock = sale.stock_of(locks)

        async def lane() -> None:
            nonlocal served
            for buyer in buyers:
                asked = time.perf_counter()
                await sale.buy(stock, buyer)
                waits[bin_of(time.perf_counter() - asked)] += 1
                served += 1

        lanes = asyncio.gather(*(lane() for _ in range(max(1, sale.concurrency // sale.shops))))
        while not lanes.done():
            await asyncio.wait((lanes,), timeout=_TELL_EVERY)
            _tell(served=served, waits=waits)
            waits.clear()
        lanes.result()


async def _relay(sale: Sale, number: int) -> None:
    from aiodlock.inventory.orders import OutboxRelay

    async with (
        connect(sale.backend) as locks,
        OutboxRelay(sale.stock_of(locks), sale.orders, topic=sale.topic) as relay,
    ):
        await _tell_for_ever(lambda: {"done": relay.published})


async def _writer(sale: Sale, number: int) -> None:
    from aiodlock.inventory.orders import OrderWriter

    async with OrderWriter(sale.orders, sale.into, topic=sale.topic, group=sale.topic) as writer:
        await _tell_for_ever(lambda: {"done": writer.written, "session": writer.session})


async def _tell_for_ever(facts: Callable[[], dict[str, int]]) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY)
        _tell(**facts())


def _tell(**facts: int | dict[int, int]) -> None:
    print(json.dumps(facts), flush=True)


def main(role: str, number: str) -> None:
    """Be one part of a sale until it is over, or until somebody ends this process."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what fails is tried again, and told if it stays so
    parts = {"shop": _shop, "relay": _relay, "writer": _writer}
    try:
        asyncio.run(parts[role](Sale(**json.load(sys.stdin)), int(number)))
    except BackendUnavailableError as error:
        print(f"aiodlock: {role}: {error}", file=sys.stderr)
        sys.exit(UNAVAILABLE)


if __name__ == "__main__":
    main(*sys.argv[1:])
