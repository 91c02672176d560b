"""Serve one of the shops on a free port until standard input ends, and print its books then: what `load.py` starts.

python examples/shops/serving.py fastapi 1000
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from aiohttp import web

import aiodlock

HOST = "127.0.0.1"
sys.path.insert(0, str(Path(__file__).parents[1]))  # the shops begin with a number: imported by name only


@asynccontextmanager
async def fastapi() -> AsyncIterator[tuple[int, aiodlock.SegmentedStock]]:
    shop = importlib.import_module("19_fastapi_shop")
    server = uvicorn.Server(uvicorn.Config(shop.app, host=HOST, port=0, log_level="warning", access_log=False))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # it has no event for that
        await asyncio.wait((serving,), timeout=0.01)
        if serving.done():
            raise RuntimeError("uvicorn did not start")
    try:
        yield server.servers[0].sockets[0].getsockname()[1], shop.stock
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def aiohttp() -> AsyncIterator[tuple[int, aiodlock.SegmentedStock]]:
    shop = importlib.import_module("20_aiohttp_shop")
    runner = web.AppRunner(shop.app, handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, backlog=1000).start()
        yield runner.addresses[0][1], shop.app[shop.STOCK]
    finally:
        await runner.cleanup()


async def tasks_above(count: int, *, within: float) -> int:
    """Return how many tasks there are above *count*, when they have had some time to end."""
    end = time.monotonic() + within
    tasks = asyncio.all_tasks()
    while len(tasks) > count and time.monotonic() < end:
        await asyncio.sleep(0.05)
        tasks = asyncio.all_tasks()
    return max(0, len(tasks) - count)


async def main(kind: str, lamps: int) -> None:
    async with {"fastapi": fastapi, "aiohttp": aiohttp}[kind]() as (port, stock):
        await stock.add(lamps - (await stock.remaining()).total)
        before = len(asyncio.all_tasks())
        print(f"http://{HOST}:{port}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        audit, tasks = await stock.audit(), await tasks_above(before, within=5.0)
    print(json.dumps({"left": audit.left, "is_balanced": audit.is_balanced, "tasks": tasks}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
