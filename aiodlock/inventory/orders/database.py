"""One MySQL connection in transactions; after any error it is closed, and what it did last is in doubt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from aiodlock.errors import BackendError, BackendUnavailableError, ConfigurationError, MissingDependencyError

try:
    import asyncmy
    from asyncmy.errors import InterfaceError, MySQLError, OperationalError
except ImportError as error:
    raise MissingDependencyError("the database of orders", extra="mysql") from error

__all__ = ["Database", "statement"]


@cache
def statement(name: str) -> str:
    """Read a statement, without its contract: the driver looks at how it begins."""
    text = (resources.files(__package__) / "sql" / f"{name}.sql").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


class Database:
    """The database that *url* names, for one task at a time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._settings = _settings(url)
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
        with self._told():
            self._connection = await asyncmy.connect(**self._settings, autocommit=True)

    async def aclose(self) -> None:
        """Close without a word: a connection in doubt is not asked anything."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    async def has_tables(self) -> bool:
        """Tell whether a writer has made its tables here."""
        return bool(await self.query("SHOW TABLES LIKE 'aiodlock\\_offsets'"))  # the last one to be made

    async def begin(self) -> None:
        with self._told():
            await self._connection.begin()

    async def commit(self) -> None:
        with self._told():
            await self._connection.commit()

    async def query(self, statement: str, arguments: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Return the rows of one statement."""
        with self._told():
            async with self._connection.cursor() as cursor:
                await cursor.execute(statement, arguments)
                return list(await cursor.fetchall())

    async def run(self, statements: str, arguments: Sequence[object] = ()) -> int:
        """Run statements parted by semicolons; return how many rows the last one changed."""
        changed = 0
        with self._told():
            async with self._connection.cursor() as cursor:
                for statement in filter(str.strip, statements.split(";\n")):
                    changed = await cursor.execute(statement, arguments or None)
        return int(changed)

    async def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for many rows, in one round trip where it inserts."""
        with self._told():
            async with self._connection.cursor() as cursor:
                await cursor.executemany(statement, rows)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell the driver's errors as ours, with the server and without its password."""
        where = f"mysql://{self._settings['host']}:{self._settings['port']}"
        try:
            yield
        except (OperationalError, InterfaceError, OSError, EOFError) as error:
            raise BackendUnavailableError(f"{where}: {error}") from error
        except MySQLError as error:
            raise BackendError(f"{where}: {error}") from error


def _settings(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or 3306
    except ValueError:  # of the port, or of brackets; the message would show the URL, and its password
        parts = urlsplit("")
        host, port = "", 0
    if parts.scheme != "mysql" or not parts.path[1:]:
        raise ConfigurationError("the database of orders: give mysql://user:password@host:port/database")
    return {
        "host": host,
        "port": port,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path[1:]),
    }
