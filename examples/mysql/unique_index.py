"""The unique index as a lock: an insert takes it, a delete gives it back. What if its holder dies in between?"""

import asyncio
import os

import asyncmy
from asyncmy.errors import IntegrityError

import aiodlock
from aiodlock.backends.mysql.address import Address

URL = os.environ.get("AIODLOCK_URL", "mysql://root@127.0.0.1/test")


async def classic(cursor) -> None:
    await cursor.execute("DROP TABLE IF EXISTS classic")
    await cursor.execute("CREATE TABLE classic (name VARCHAR(50) PRIMARY KEY)")
    await cursor.execute("INSERT INTO classic VALUES ('job')")  # the holder; it dies before its DELETE
    try:
        await cursor.execute("INSERT INTO classic VALUES ('job')")  # the next one; it may retry for ever
    except IntegrityError:
        print("classic: the holder died, and nobody gets in")


async def ours() -> None:
    holder = await aiodlock.connect(URL, name="holder").start()
    async with aiodlock.connect(URL, name="next") as locks:
        await holder.lock("job", ttl=1).acquire()
        die(holder)
        async with locks.lock("job", wait=10):  # in line, and called when the lease has ended
            print("aiodlock: the holder died, and the next one gets in")
    await holder.aclose()


def die(client: aiodlock.LockClient) -> None:
    """Stop renewing, as a process that is killed does."""
    client.backend.renew = lambda tickets: asyncio.sleep(0, [None for _ in tickets])


async def main() -> None:
    address = Address.from_url(URL)
    user, password = address.credentials()
    where = {"host": address.host, "port": address.port, "database": address.database}
    connecting = asyncmy.connect(user=user, password=password, autocommit=True, **where)
    async with connecting as connection, connection.cursor() as cursor:
        await classic(cursor)
    await ours()


asyncio.run(main())
