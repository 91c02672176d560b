"""A version column: write only if nobody else has since you read. Without it the last writer wins, the rest is lost."""

import asyncio
import os

import asyncmy
from asyncmy.cursors import DictCursor

from aiodlock.backends.mysql import Versioned
from aiodlock.backends.mysql.address import Address

address = Address.from_url(os.environ.get("AIODLOCK_URL", "mysql://root@127.0.0.1/test"))
stock = Versioned("lamps", tries=50)


@stock.change
def sell(row, count):
    return {"amount": row["amount"] - count}


async def careless(cursor, everybody) -> None:
    await cursor.execute("SELECT amount FROM lamps WHERE id = 1")
    amount = (await cursor.fetchone())["amount"]
    await everybody.wait()  # all have read before the first one writes
    await cursor.execute("UPDATE lamps SET amount = %s WHERE id = 1", (amount - 1,))


async def main() -> None:
    user, password = address.credentials()
    where = {"host": address.host, "port": address.port, "database": address.database}
    async with asyncmy.create_pool(user=user, password=password, autocommit=True, maxsize=5, **where) as pool:

        async def with_cursor(work) -> None:
            async with pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
                await work(cursor)

        async def left() -> int:
            async with pool.acquire() as connection, connection.cursor() as cursor:
                await cursor.execute("SELECT amount FROM lamps WHERE id = 1")
                return (await cursor.fetchone())[0]

        await with_cursor(lambda cursor: cursor.execute("DROP TABLE IF EXISTS lamps"))
        table = "CREATE TABLE lamps (id INT PRIMARY KEY, amount INT, version INT NOT NULL DEFAULT 0)"
        await with_cursor(lambda cursor: cursor.execute(table))
        await with_cursor(lambda cursor: cursor.execute("INSERT INTO lamps (id, amount) VALUES (1, 100)"))
        everybody = asyncio.Barrier(5)
        await asyncio.gather(*(with_cursor(lambda cursor: careless(cursor, everybody)) for _ in range(5)))
        print("careless: 5 sold, left:", await left())
        await asyncio.gather(*(with_cursor(lambda cursor: sell(cursor, 1, 1)) for _ in range(5)))
        print("versioned: 5 more sold, left:", await left())


asyncio.run(main())
