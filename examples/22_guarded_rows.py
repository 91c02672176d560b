"""A row that refuses a late writer: the guard compares fences in the update itself, whatever was read before."""

import asyncio
import os

import asyncmy

import aiodlock
from aiodlock.guards.sql import SqlGuard
from aiodlock.testing.servers import MariaDBServer

guard = SqlGuard("stock")  # the column fence keeps the newest one that wrote to a row


async def main(server: MariaDBServer) -> None:
    url = os.environ.get("AIODLOCK_URL", server.url)  # the locks may be on any server
    where = {"host": "127.0.0.1", "port": server.port, "database": server.database}
    async with (
        asyncmy.create_pool(user="root", autocommit=True, minsize=2, **where) as pool,
        pool.acquire() as slow,
        pool.acquire() as fast,
        slow.cursor() as sleepy,
        fast.cursor() as quick,
        aiodlock.connect(url) as locks,
    ):
        await quick.execute("CREATE TABLE stock (id INT PRIMARY KEY, amount INT, fence BIGINT NOT NULL DEFAULT 0)")
        await quick.execute("INSERT INTO stock (id, amount) VALUES (42, 20)")
        old = await locks.lock("stock", ttl=0.1, renew=False).acquire()
        await slow.begin()
        await sleepy.execute("SELECT amount FROM stock WHERE id = 42")
        # Here sleepy is frozen: its lease ends, and it cannot notice.
        async with aiodlock.connect(url) as others, others.lock("stock") as new:
            await guard.update(quick, 42, {"amount": 17}, fence=new.fence)
            await guard.update(quick, 42, {"amount": 15}, fence=new.fence)  # as often as it likes
        # Here sleepy goes on where it was; its transaction still sees 20.
        try:
            await guard.update(sleepy, 42, {"amount": 19}, fence=old.fence)
            await slow.commit()
        except aiodlock.LockLostError:
            await slow.rollback()
            print("sleepy is too late")
        await quick.execute("SELECT amount FROM stock WHERE id = 42")
        print("in stock:", (await quick.fetchone())[0])


with MariaDBServer() as running:
    asyncio.run(main(running))
