"""The lock table: key, since when, how long, by whom. A job that takes longer than planned is overtaken, or is it?"""

import asyncio
import os

import asyncmy

from aiodlock import LockClient
from aiodlock.backends.mysql import LockTable
from aiodlock.backends.mysql.address import Address

URL = os.environ.get("AIODLOCK_URL", "mysql://root@127.0.0.1/test")
address = Address.from_url(URL)

TAKE = """
UPDATE job_locks SET lock_time = UTC_TIMESTAMP(6), lock_owner = %s, lock_duration = 1000, locked = TRUE
WHERE lock_key = 'report'
  AND (NOT locked OR lock_time + INTERVAL lock_duration * 1000 MICROSECOND <= UTC_TIMESTAMP(6))"""


def table() -> LockTable:
    return LockTable.from_url(URL, table="job_locks")


async def main() -> None:
    user, password = address.credentials()
    where = {"host": address.host, "port": address.port, "database": address.database}
    connecting = asyncmy.connect(user=user, password=password, autocommit=True, **where)
    async with connecting as connection, connection.cursor() as cursor:
        await cursor.execute("DROP TABLE IF EXISTS job_locks")
        await cursor.execute(table().definition)
        await cursor.execute("INSERT INTO job_locks VALUES ('report', UTC_TIMESTAMP(6), 0, '', FALSE)")
        inside = ["first"] if await cursor.execute(TAKE, ("first",)) else []
        await asyncio.sleep(1.2)  # the job is slow
        inside += ["second"] if await cursor.execute(TAKE, ("second",)) else []
        print("classic:", " and ".join(inside), "are inside")
        await cursor.execute("UPDATE job_locks SET locked = FALSE")
    first, second = LockClient(table(), name="first"), LockClient(table(), name="second")
    async with first, second, first.lock("report", ttl=3):
        await asyncio.sleep(3.2)  # lock_time is refreshed meanwhile
        got = await second.lock("report").try_acquire()
        print("aiodlock: the second one got", got, "- it is held by", await second.lock("report").holder())


asyncio.run(main())
