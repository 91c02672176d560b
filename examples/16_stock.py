"""A flash sale: a thousand lamps in sixteen segments, orders sent twice, one per buyer, unpaid ones go back."""

import asyncio
import os
from collections import Counter

import aiodlock
from aiodlock import SoldOut, Taken

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


async def buy(stock: aiodlock.SegmentedStock, number: int) -> str:
    """Order once, and once more, as a browser does that lost the answer: the second order finds the first."""
    wish = {"buyer": f"buyer-{number}", "order": f"order-{number}"}
    first = await stock.take(**wish)
    assert type(await stock.take(**wish)) is type(first)
    match first:
        case Taken():
            return "sold"
        case SoldOut():
            return "sold out"
        case other:
            return str(other)


async def main() -> None:
    async with aiodlock.connect(URL) as locks:
        stock = locks.stock("lamp", segments=16, once_per_buyer=True)
        await stock.load(1000)
        outcomes = Counter(await asyncio.gather(*(buy(stock, number) for number in range(2000))))
        print(f"sold: {outcomes['sold']}, sold out: {outcomes['sold out']}, left: {(await stock.remaining()).total}")

        back = await stock.put_back(buyer="buyer-0", order="order-0")
        print(f"order-0: {back}, left: {(await stock.remaining()).total}")
        await stock.reserve(buyer="late", order="order-late", hold_for=1.0)
        print(f"reserved for a second, left: {(await stock.remaining()).total}")
        await asyncio.sleep(1.2)
        print(f"not paid: {await stock.confirm(buyer='late', order='order-late')}")
        print(f"the books balance: {(await stock.audit()).is_balanced}")
        await stock.close()


asyncio.run(main())
