"""The same shop with aiohttp, over real sockets: customers who hang up while they wait leave the books in balance."""

import asyncio
import os
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")
STOCK = web.AppKey("stock", aiodlock.SegmentedStock)


async def with_stock(app: web.Application) -> AsyncIterator[None]:
    async with aiodlock.connect(URL) as locks:
        app[STOCK] = stock = locks.stock("aiohttp-lamp", segments=8)
        await stock.load(100)
        yield
        print(f"the books balance: {(await stock.audit()).is_balanced}, left: {(await stock.remaining()).total}")
        await stock.close()


async def buy(request: web.Request) -> web.Response:
    stock, query = request.app[STOCK], request.query
    sale = await stock.take(buyer=query["buyer"], order=query["order"])
    return web.json_response({"sold": isinstance(sale, aiodlock.Taken)})


app = web.Application()
app.cleanup_ctx.append(with_stock)
app.router.add_post("/buy", buy)


async def customer(shop: aiohttp.ClientSession, number: int, *, patience: float) -> bool:
    """Order, hang up after a while, and ask again: the order is the same."""
    wish = {"buyer": f"b-{number}", "order": f"order-{number}"}
    for limit in (patience, 10.0):
        try:
            async with shop.post("/buy", params=wish, timeout=aiohttp.ClientTimeout(limit)) as answer:
                return bool((await answer.json())["sold"])
        except TimeoutError:
            continue
    return False


async def main() -> None:
    runner = web.AppRunner(app, handler_cancellation=True)  # a customer who hangs up cancels the handler
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as shop:
        sold = await asyncio.gather(*(customer(shop, n, patience=0.001 * (1 + n % 50)) for n in range(250)))
    print(f"sold: {sum(sold)}")
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
