"""Recursion under one re-entrant lock: each level takes the lock of the tree, and none waits for itself."""

import asyncio
import os
from typing import Any

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")

Tree = dict[str, Any]
MENU: Tree = {"drinks": {"tea": {"green": {}, "black": {}}, "coffee": {}}, "food": {"rice": {}, "soup": {}}}


async def publish(locks: aiodlock.LockClient, tree: Tree, fences: list[int], depth: int = 0) -> int:
    """Publish a tree from its root or any branch of it; return how deep it was."""
    deepest = depth
    async with locks.lock("menu-tree") as hold:
        fences.append(hold.fence)
        for branch in tree.values():
            deepest = max(deepest, await publish(locks, branch, fences, depth + 1))
    return deepest


async def main() -> None:
    async with aiodlock.connect(URL) as locks:
        fences: list[int] = []
        depth = await publish(locks, MENU, fences)
        print(f"entered {len(fences)} times, {depth + 1} deep at most, with {len(set(fences))} fence")
        print(f"locked afterwards: {await locks.lock('menu-tree').locked()}")

        once = locks.lock("menu-tree", reentrant=False)
        async with once:
            try:
                await once.acquire()
            except aiodlock.LockError as error:
                print(error)


asyncio.run(main())
