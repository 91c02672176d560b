"""One MySQL connection in transactions; after any error it is closed, and what it did last is in doubt."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from aiodlock.errors import ConfigurationError, MissingDependencyError

try:
    import asyncmy
except ImportError as error:
    raise MissingDependencyError("the database of orders", extra="mysql") from error

__all__ = ["Database"]


class Database:
    """The database that *url* names, for one task at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "mysql" or not parts.path[1:]:
            raise ConfigurationError("the database of orders: give mysql://user:password@host:port/database")
        self.url = url
        self._settings = {
            "host": parts.hostname or "localhost",
            "port": parts.port or 3306,
            "user": unquote(parts.username or "root"),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path[1:]),
        }
        self._connection: Any = None

    @property
    def session(self) -> int:
        """The server's number of this connection, 0 without one."""
        return int(self._connection.thread_id()) if self._connection is not None else 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Connect anew."""
        await self.aclose()
        self._connection = await asyncmy.connect(**self._settings, autocommit=True)

    async def aclose(self) -> None:
        """Close without a word: a connection in doubt is not asked anything."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    async def begin(self) -> None:
        await self._connection.begin()

    async def commit(self) -> None:
        await self._connection.commit()

    async def query(self, statement: str, arguments: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Return the rows of one statement."""
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, arguments)
            return list(await cursor.fetchall())

    async def run(self, statements: str, arguments: Sequence[object] = ()) -> int:
        """Run statements parted by semicolons; return how many rows the last one changed."""
        changed = 0
        async with self._connection.cursor() as cursor:
            for statement in filter(str.strip, statements.split(";\n")):
                changed = await cursor.execute(statement, arguments or None)
        return int(changed)

    async def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for many rows, in one round trip where it inserts."""
        async with self._connection.cursor() as cursor:
            await cursor.executemany(statement, rows)
