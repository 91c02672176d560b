"""Money moves between two accounts, in both directions at once, and nobody waits for each other for ever."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


async def transfer(locks: aiodlock.LockClient, accounts: dict[str, int], source: str, target: str) -> None:
    both = locks.multi(locks.lock(f"account:{source}"), locks.lock(f"account:{target}"), wait=5)
    async with both as hold:
        assert [held.key for held in hold.holds] == ["account:ann", "account:bob"]  # in one order, however asked
        amount = accounts[source] // 2
        await asyncio.sleep(0.001)
        accounts[source] -= amount
        accounts[target] += amount


async def main() -> None:
    accounts = {"ann": 100, "bob": 100}
    async with aiodlock.connect(URL, name="node-1") as one, aiodlock.connect(URL, name="node-2") as two:
        there = [transfer(one, accounts, "ann", "bob") for _ in range(20)]
        back = [transfer(two, accounts, "bob", "ann") for _ in range(20)]
        await asyncio.gather(*there, *back)
    print(f"transfers: {len(there) + len(back)}, money: {sum(accounts.values())}")


asyncio.run(main())
