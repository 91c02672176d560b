"""The lock everybody writes first, SET NX PX with compare-and-delete: what goes wrong with it, and the cure."""

import asyncio
import contextlib
import uuid

from redis.asyncio import Redis
from redis.exceptions import RedisError

import aiodlock
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer

DELETE_MINE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


async def acquire(redis: Redis, key: str, *, ttl: float) -> str | None:
    """Return the token of the owner, or None."""
    token = uuid.uuid4().hex
    return token if await redis.set(key, token, nx=True, px=int(ttl * 1000)) else None


async def classic(redis: Redis, far: Redis, cuts: FaultProxy) -> None:
    token = await acquire(redis, "a", ttl=1)
    await asyncio.sleep(1.2)  # a slow query, a frozen process
    second = await acquire(redis, "a", ttl=5)
    print(f"classic: two believe to be inside: {bool(token and second)}")
    deleted = await redis.eval(DELETE_MINE, 1, "a", str(token))
    print(f"classic: the first one hears of it when it is done: {not deleted}")
    cuts.drop_reply(match=b"NX", times=1)
    with contextlib.suppress(RedisError):
        await acquire(far, "b", ttl=5)
    print(f"classic: an answer is lost, the lock is taken, nobody has it: {await redis.exists('b') == 1}")


async def ours(locks: aiodlock.LockClient, far: aiodlock.LockClient, cuts: FaultProxy) -> None:
    async with locks.lock("c", ttl=1) as hold:
        await asyncio.sleep(1.2)
        print(f"aiodlock: the lease is renewed: {not hold.lost}")
    first = await locks.lock("d", ttl=0.1, renew=False).acquire()
    async with far.lock("d", wait=5) as second:
        print(f"aiodlock: the first one knows, and its fence is the older: {first.lost and first.fence < second.fence}")
    cuts.drop_reply(match=b"EVALSHA", times=1)
    async with far.lock("e", wait=5):
        print("aiodlock: an answer is lost, it is asked again, and the lock is ours")


async def main(near: int, cuts: FaultProxy) -> None:
    urls = [f"redis://127.0.0.1:{port}" for port in (near, cuts.port)]
    async with Redis.from_url(urls[0]) as redis, Redis.from_url(urls[1]) as far:
        await classic(redis, far, cuts)
    async with aiodlock.connect(urls[0]) as locks, aiodlock.connect(urls[1]) as far_locks:
        await ours(locks, far_locks, cuts)


with RedisServer() as server, FaultProxy(server.port) as cuts:
    asyncio.run(main(server.port, cuts))
