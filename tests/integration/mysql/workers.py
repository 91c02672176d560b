"""What the worker processes of these tests run: visits to one key by many tasks, each recorded."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import asyncmy

import aiodlock
from aiodlock import Lock
from aiodlock.backends.mysql.address import Address
from aiodlock.errors import BackendError, LockError
from aiodlock.testing.history import Recorder


async def visit(record: Recorder, *, url: str, key: str, tasks: int, visits: int, ttl: float) -> None:
    """Enter *key* again and again, until every task has been inside *visits* times."""
    async with aiodlock.connect(url, name=record.who) as locks:
        lock = locks.lock(key, ttl=ttl)
        record("ready")
        await asyncio.gather(*(_visit(record, lock, visits) for _ in range(tasks)))
    record("closed")


async def _visit(record: Recorder, lock: Lock, visits: int) -> None:
    done = 0
    while done < visits:
        asked = record.now()
        with suppress(LockError, BackendError):
            async with lock as hold:
                fact = {"key": lock.key, "id": hold.fence, "fence": hold.fence}
                record("inside", **fact, asked=asked, valid_until=record.now() + hold.remaining)
                await asyncio.sleep(0.0005)
                record("left", **fact)
                done += 1


async def hold(record: Recorder, *, url: str, key: str, ttl: float) -> None:
    """Hold *key* until the process ends, or the hold does."""
    async with aiodlock.connect(url, name=record.who) as locks:
        asked = record.now()
        with suppress(LockError):
            async with locks.lock(key, ttl=ttl) as held:
                fact = {"key": key, "id": held.fence, "fence": held.fence}
                record("inside", **fact, asked=asked, valid_until=record.now() + held.remaining)
                while True:
                    await asyncio.sleep(ttl / 20)
                    held.check()
                    record("renewed", **fact, valid_until=record.now() + held.remaining)
    record("lost")


async def visit_naively(record: Recorder, *, url: str, key: str, tasks: int, visits: int, ttl: float) -> None:
    """The broken twin: a named lock that is gone with its connection, in which its holder goes on to believe."""
    address = Address.from_url(url)
    record("ready")
    await asyncio.gather(*(_visit_naively(record, address, key, visits, ttl) for _ in range(tasks)))


async def _visit_naively(record: Recorder, address: Address, key: str, visits: int, ttl: float) -> None:
    for number in range(visits):
        with suppress(asyncmy.errors.Error, OSError):
            connection = await asyncmy.connect(host=address.host, port=address.port, database=address.database)
            try:
                asked = record.now()
                await connection.query(f"SELECT GET_LOCK('{key}', 10)")
                record("inside", key=key, id=number, asked=asked, valid_until=asked + ttl)
                await asyncio.sleep(0.05)
                record("left", key=key, id=number)
            finally:
                connection.close()
