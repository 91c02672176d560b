"""Data in Redis that refuses a late writer: the guard compares fences in one step with the write."""

import asyncio
import os

from redis.asyncio import Redis

import aiodlock
from aiodlock.guards.redis import RedisGuard
from aiodlock.testing.servers import RedisServer


async def main(data_url: str) -> None:
    url = os.environ.get("AIODLOCK_URL", data_url)  # the locks may be on any server
    async with (
        Redis.from_url(data_url, decode_responses=True) as redis,
        aiodlock.connect(url) as sleepy,
        aiodlock.connect(url) as quick,
    ):
        guard = RedisGuard(redis)
        old = await sleepy.lock("stock", ttl=0.1, renew=False).acquire()
        # Here sleepy is frozen: its lease ends, and it cannot notice.
        async with quick.lock("stock") as new:
            await guard.write("stock:42", "SET", 17, fence=new.fence)
            await guard.write("stock:42", "DECRBY", 2, fence=new.fence)  # as often as it likes
        # Here sleepy goes on where it was.
        try:
            await guard.write("stock:42", "SET", 99, fence=old.fence)
        except aiodlock.LockLostError:
            print("sleepy is too late")
        print(f"in stock: {await redis.get('stock:42')}")


with RedisServer() as server:
    asyncio.run(main(server.url))
