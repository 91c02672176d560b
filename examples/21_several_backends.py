"""A price is in a ledger and on a page, and each is locked where it lives: two servers, one lock, no deadlock."""

import asyncio
import os

import aiodlock

LEDGER = os.environ.get("AIODLOCK_LEDGER_URL", "memory://ledger")  # mysql://user@host/db, say
PAGES = os.environ.get("AIODLOCK_URL", "memory://pages")  # redis://host, say


async def raise_price(ledger: aiodlock.LockClient, pages: aiodlock.LockClient, shop: dict[str, int]) -> None:
    async with ledger.multi(ledger.lock("price"), pages.lock("price"), wait=10):
        price = shop["ledger"] + 1
        shop["ledger"] = price
        await asyncio.sleep(0.001)
        shop["page"] = price


async def rebuild_page(ledger: aiodlock.LockClient, pages: aiodlock.LockClient, shop: dict[str, int]) -> bool:
    async with ledger.multi(pages.lock("price"), ledger.lock("price"), wait=10):  # named the other way round
        return shop["page"] == shop["ledger"]


async def lose_one(ledger: aiodlock.LockClient, pages: aiodlock.LockClient) -> None:
    try:
        async with ledger.multi(ledger.lock("price"), pages.lock("price")):
            await pages.lock("price").force_release()
            await asyncio.sleep(60)  # is cancelled: when one is lost, all are
    except aiodlock.LockLostError as error:
        print(f"{error.key} is lost, and the ledger is free: {not await ledger.lock('price').locked()}")


async def main() -> None:
    shop = {"ledger": 100, "page": 100}
    async with aiodlock.connect(LEDGER) as ledger, aiodlock.connect(PAGES) as pages:
        raising = [raise_price(ledger, pages, shop) for _ in range(20)]
        rebuilding = [rebuild_page(ledger, pages, shop) for _ in range(20)]
        _, agreed = await asyncio.gather(asyncio.gather(*raising), asyncio.gather(*rebuilding))
        print(f"price: {shop['page']}, ledger and page agreed every time: {all(agreed)}")
        await lose_one(ledger, pages)


asyncio.run(main())
