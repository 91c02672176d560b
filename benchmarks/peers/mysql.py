"""The locks that people build on MySQL, through asyncmy; each holder and each waiter needs a connection."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any
from urllib.parse import urlsplit

from benchmarks.peers.base import LEASE, Entry, Peer

__all__ = ["PEERS"]

_PAUSE = 0.01  # between two tries to insert


class _Mysql:
    """Connections that are kept for the next who needs one."""

    prepare = ""
    entry: type[_Connected]

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._where = {"host": where.hostname, "port": where.port, "user": where.username, "database": where.path[1:]}
        self._free: list[Any] = []
        self.driver: Any = None

    async def open(self) -> None:
        self.driver = importlib.import_module("asyncmy")
        if self.prepare:
            connection = await self.connection()
            await connection.query(self.prepare)
            self.give_back(connection)

    async def connection(self) -> Any:
        return self._free.pop() if self._free else await self.driver.connect(autocommit=True, **self._where)

    def give_back(self, connection: Any) -> None:
        self._free.append(connection)

    def lock(self, key: str) -> Entry:
        return self.entry(self, key)


class _Connected:
    """A lock that is held by a connection."""

    def __init__(self, adapter: _Mysql, key: str) -> None:
        self._adapter, self._key = adapter, key
        self._connection: Any = None

    async def __aenter__(self) -> object:
        self._connection = await self._adapter.connection()
        await self.take(self._connection)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.free(self._connection)
        self._adapter.give_back(self._connection)

    async def take(self, connection: Any) -> None:
        raise NotImplementedError

    async def free(self, connection: Any) -> None:
        raise NotImplementedError


class _GetLock(_Mysql):
    class entry(_Connected):
        async def take(self, connection: Any) -> None:
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT GET_LOCK(%s, %s)", (self._key, 10 * LEASE))
                assert await cursor.fetchone() == (1,)

        async def free(self, connection: Any) -> None:
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT RELEASE_LOCK(%s)", (self._key,))
                assert await cursor.fetchone() == (1,)


class _Insert(_Mysql):
    prepare = "CREATE TABLE IF NOT EXISTS bench_insert (name VARCHAR(100) PRIMARY KEY) ENGINE = InnoDB"

    class entry(_Connected):
        async def take(self, connection: Any) -> None:
            taken = self._adapter.driver.errors.IntegrityError
            async with connection.cursor() as cursor:
                while True:
                    try:
                        await cursor.execute("INSERT INTO bench_insert VALUES (%s)", (self._key,))
                        return
                    except taken:
                        await asyncio.sleep(_PAUSE)

        async def free(self, connection: Any) -> None:
            async with connection.cursor() as cursor:
                await cursor.execute("DELETE FROM bench_insert WHERE name = %s", (self._key,))


class _ForUpdate(_Mysql):
    prepare = "CREATE TABLE IF NOT EXISTS bench_rows (name VARCHAR(100) PRIMARY KEY) ENGINE = InnoDB"

    class entry(_Connected):
        async def take(self, connection: Any) -> None:
            await connection.begin()
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT name FROM bench_rows WHERE name = %s FOR UPDATE", (self._key,))
                if await cursor.fetchone() is None:
                    await cursor.execute("INSERT IGNORE INTO bench_rows VALUES (%s)", (self._key,))
                    await connection.commit()
                    await self.take(connection)

        async def free(self, connection: Any) -> None:
            await connection.commit()


PEERS = tuple(
    Peer(name, make, note=note, requires=("asyncmy==0.2.17",), server="mysql", sends=frozenset({"question"}))
    for name, make, note in (
        ("mysql-getlock", _GetLock, "GET_LOCK, a connection for each waiter"),
        ("mysql-insert", _Insert, f"INSERT, tried again every {_PAUSE:g} s"),
        ("mysql-forupdate", _ForUpdate, "SELECT … FOR UPDATE, a connection for each waiter"),
    )
)
