"""A writer that slept through its lease comes back and writes; the ledger refuses it by its fence."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


class Ledger:
    """A resource that remembers the newest fence and refuses an older one, in one step with the write."""

    newest = 0
    entry = ""

    def write(self, entry: str, *, fence: int) -> bool:
        if fence < self.newest:
            return False
        self.newest, self.entry = fence, entry
        return True


async def main() -> None:
    ledger = Ledger()
    async with aiodlock.connect(URL, name="sleepy") as sleepy, aiodlock.connect(URL, name="quick") as quick:
        old = await sleepy.lock("ledger", ttl=0.1, renew=False).acquire()
        # Here sleepy is frozen: its lease ends, and it cannot notice.
        async with quick.lock("ledger") as new:  # gets in when that lease is over
            print(f"quick writes: {ledger.write('from quick', fence=new.fence)}")
        # Here sleepy goes on where it was.
        print(f"sleepy writes: {ledger.write('from sleepy', fence=old.fence)}")
        print(f"sleepy's lock is lost: {old.lost}")
    print(f"the ledger says: {ledger.entry}")


asyncio.run(main())
