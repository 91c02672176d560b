"""Many readers, one rebuild: a cache behind a read-write lock, with a second check under the write lock."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")

Menu = list[str]


class Cache:
    """Stands for a cache that all nodes share."""

    menu: Menu | None = None
    rebuilt = 0

    async def rebuild(self) -> Menu:
        self.rebuilt += 1
        await asyncio.sleep(0.05)  # the slow query
        return ["tea", "rice", "soup"]


async def menu_of_the_day(locks: aiodlock.LockClient, cache: Cache) -> Menu:
    lock = locks.rwlock("menu")
    async with lock.read():
        if cache.menu is not None:
            return cache.menu
    async with lock.write():
        if cache.menu is None:  # the second check: whoever was here before us has rebuilt it
            cache.menu = await cache.rebuild()
        return cache.menu


async def main() -> None:
    cache = Cache()
    async with aiodlock.connect(URL, name="node-1") as one, aiodlock.connect(URL, name="node-2") as two:
        menus = await asyncio.gather(*(menu_of_the_day(locks, cache) for locks in (one, two) * 50))
    print(f"readers served: {menus.count(['tea', 'rice', 'soup'])}")
    print(f"rebuilt: {cache.rebuilt}")


asyncio.run(main())
