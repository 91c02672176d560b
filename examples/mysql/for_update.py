"""SELECT … FOR UPDATE: the row is locked until the transaction ends. It needs an index, and a connection each."""

import asyncio
import os

import asyncmy

from aiodlock.backends.mysql import RowLock
from aiodlock.backends.mysql.address import Address
from aiodlock.errors import AcquireTimeoutError, ConfigurationError

address = Address.from_url(os.environ.get("AIODLOCK_URL", "mysql://root@127.0.0.1/test"))


async def main() -> None:
    user, password = address.credentials()
    where = {"host": address.host, "port": address.port, "database": address.database}
    async with asyncmy.create_pool(user=user, password=password, autocommit=True, maxsize=6, **where) as pool:
        async with pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute("DROP TABLE IF EXISTS seats")
            await cursor.execute("CREATE TABLE seats (id INT PRIMARY KEY, row_name VARCHAR(9), free INT)")
            await cursor.execute("INSERT INTO seats VALUES (1, 'A', 10), (2, 'B', 10)")
        seats = RowLock(pool, "seats", most=5)

        async def book() -> None:
            async with seats.row(1) as (cursor, row):
                await cursor.execute("UPDATE seats SET free = %s WHERE id = 1", (row["free"] - 1,))

        await asyncio.gather(*(book() for _ in range(5)))
        async with seats.row(1) as (_, row):
            print("free after five bookings:", row["free"])
            try:
                async with seats.row(1, wait=0):
                    pass
            except AcquireTimeoutError as error:
                print("NOWAIT:", error)
            async with seats.row(2, wait=0):
                print("another row is free; connections held:", seats.held)
        try:
            async with RowLock(pool, "seats", key="row_name").row("A"):
                pass
        except ConfigurationError as error:
            print(error)


asyncio.run(main())
