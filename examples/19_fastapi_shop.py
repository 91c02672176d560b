"""A shop with FastAPI: POST /buy takes from stock; a browser that sends twice, or goes away, buys once."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, HTTPException

import aiodlock

locks = aiodlock.connect(os.environ.get("AIODLOCK_URL", "memory://examples"))  # no loop needed, no I/O yet
stock = locks.stock("fastapi-lamp", segments=8, once_per_buyer=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with locks:
        await stock.load(100)  # every worker says so; the first one opens the sale
        yield
        await stock.close()


app = FastAPI(lifespan=lifespan)


@app.post("/buy")
async def buy(buyer: str, order: str) -> dict[str, object]:
    match await stock.take(buyer=buyer, order=order):
        case aiodlock.Taken(segment=segment):
            return {"order": order, "segment": segment}
        case aiodlock.SoldOut():
            raise HTTPException(410, "sold out")
        case aiodlock.AlreadyTaken(order=other):
            raise HTTPException(409, f"you have {other} already")
        case aiodlock.Returned():
            raise HTTPException(410, "this order was put back")


async def customer(browser: httpx.AsyncClient, number: int) -> list[int]:
    """Order, send the same again, and try for a second lamp."""
    wishes = [f"order-{number}", f"order-{number}", f"second-{number}"]
    answers = [await browser.post("/buy", params={"buyer": f"b-{number}", "order": order}) for order in wishes]
    return [answer.status_code for answer in answers]


async def main() -> None:
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as browser:
            seen = Counter(map(tuple, await asyncio.gather(*(customer(browser, n) for n in range(250)))))
        left = (await stock.remaining()).total
        print(f"bought once: {seen[200, 200, 409]}, too late: {seen[410, 410, 410]}, left: {left}")


if __name__ == "__main__":
    asyncio.run(main())
