"""Two classic ways to guard rows of your own tables, over your own asyncmy connections.

`RowLock` is the pessimistic one (``SELECT … FOR UPDATE``), `Versioned` the optimistic one (a version column). Both work
in your transaction, on your connection: cancelled while it waits, asyncmy closes the connection, and the server rolls
back.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias

from asyncmy.cursors import DictCursor
from asyncmy.errors import OperationalError

from aiodlock.backends.mysql.names import quoted
from aiodlock.errors import AcquireTimeoutError, ConfigurationError, LockError, TooManyWaitersError

__all__ = ["Change", "Pool", "Row", "RowLock", "Versioned"]

_P = ParamSpec("_P")
Row: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[Concatenate[Row, _P], Mapping[str, object]]

_WAITED, _NOT_NOW = 1205, 3572  # MariaDB says the first for NOWAIT as well
_UNIQUE = "const"  # one row at most; of other plans the server chooses by the value
_BY_INDEX = frozenset({"system", _UNIQUE, "eq_ref", "ref"})
_PAUSE = 0.005  # before a second try; doubles


class Pool(Protocol):
    """What gives connections: an ``asyncmy`` pool."""

    def acquire(self) -> AbstractAsyncContextManager[Any]: ...


class RowLock:
    """Locks single rows of *table*, found by the indexed column *key*, until the transaction ends.

    What no index finds would lock the whole table: a column without one, or a value of another type than the column's.
    The server's plan is asked, once for each type of value where *key* is unique, and such a lock refused. Each row
    held in a transaction of its own costs a connection: at most *most* of *pool*, and `held` counts them.
    """

    def __init__(self, pool: Pool, table: str, *, key: str = "id", most: int = 10) -> None:
        self.held = 0
        self._pool = pool
        self._table = table
        self._key = key
        self._most = most
        self._select = f"SELECT * FROM {quoted(table)} WHERE {quoted(key)} = %s FOR UPDATE"
        self._planned: set[type] = set()  # types of values with which one row is found whatever the value

    @asynccontextmanager
    async def row(self, value: object, *, wait: float | None = None) -> AsyncIterator[tuple[DictCursor, Row]]:
        """Begin a transaction and lock the row; the block gets a cursor and the row. Commit, or roll back on an error.

        Cancellation: rolled back, and the connection is closed by asyncmy if it was waiting.
        """
        if self.held >= self._most:
            text = f"{self.held} rows of {self._table!r} are held already, a connection each: raise most, or hold less"
            raise TooManyWaitersError(self._name(value), text)
        self.held += 1
        try:
            async with self._pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
                await connection.begin()
                try:
                    yield cursor, await self.take(cursor, value, wait=wait)
                except BaseException:
                    if connection.connected:
                        await connection.rollback()
                    raise
                await connection.commit()
        finally:
            self.held -= 1

    async def take(self, cursor: DictCursor, value: object, *, wait: float | None = None) -> Row:
        """Lock the row in the transaction that *cursor* is in, and return it.

        *wait*: None as long as the server is set to, 0 not at all, else seconds, of which the server counts whole ones.
        `AcquireTimeoutError` if somebody else has it; `LockError` if there is no such row.

        Cancellation: asyncmy closes the connection; the server rolls back.
        """
        await self._check_plan(cursor, value)
        began = time.monotonic()
        try:
            async with _limited(cursor, wait):
                await cursor.execute(self._select + (" NOWAIT" if wait == 0 else ""), (value,))
                row: Row | None = await cursor.fetchone()
        except OperationalError as error:
            if error.args[0] not in (_WAITED, _NOT_NOW):
                raise
            waited = time.monotonic() - began if wait is None else wait
            raise AcquireTimeoutError(self._name(value), waited=waited) from error
        if row is None:
            raise LockError(self._name(value), f"{self._name(value)} is not there: insert it before it is locked")
        return row

    async def _check_plan(self, cursor: DictCursor, value: object) -> None:
        if type(value) in self._planned:
            return
        await cursor.execute(f"EXPLAIN {self._select}", (value,))
        plan = await cursor.fetchone()
        # No type: the server has looked already, and there is no such row.
        if plan and plan["type"] is not None and (plan["type"] not in _BY_INDEX or plan["key"] is None):
            raise ConfigurationError(
                f"no index finds rows of {self._table!r} by {self._key!r}={value!r}: the whole table would be locked; "
                f"CREATE INDEX … ON {self._table} ({self._key}), or give a value of the column's type"
            )
        if plan and plan["type"] == _UNIQUE:
            self._planned.add(type(value))

    def _name(self, value: object) -> str:
        return f"{self._table}.{self._key}={value}"


@asynccontextmanager
async def _limited(cursor: DictCursor, wait: float | None) -> AsyncIterator[None]:
    """Let the server wait so long, and then as before: the connection is the caller's, or goes back to a pool."""
    if not wait:
        yield
        return
    limit = "@@SESSION.innodb_lock_wait_timeout"
    await cursor.execute(f"SET @aiodlock_wait = {limit}, {limit} = %s", (max(1, round(wait)),))
    try:
        yield
    finally:
        if cursor.connection.connected:
            await cursor.execute(f"SET {limit} = @aiodlock_wait")


class Versioned:
    """Changes rows of *table* only if nobody else has since they were read: a column *version* counts changes.

    Nothing is locked and nobody waits; who comes second reads again, at most *tries* times.
    """

    def __init__(self, table: str, *, key: str = "id", version: str = "version", tries: int = 5) -> None:
        self._table, self._key, self._version, self._tries = table, key, version, tries
        self._select = f"SELECT * FROM {quoted(table)} WHERE {quoted(key)} = %s"
        quoted(version)

    async def update(self, cursor: DictCursor, value: object, change: Change[[]]) -> Row:
        """Read the row, give it to *change*, write the columns that it returns; return the row as written.

        In a transaction of REPEATABLE READ a second try would read the same again: use autocommit, or READ COMMITTED.
        `LockError` when others were quicker every time.

        Cancellation: the row is changed once or not at all; read it to know.
        """
        for number in range(self._tries):
            if number:
                await asyncio.sleep(_PAUSE * 2**number * random.random())
            await cursor.execute(self._select, (value,))
            row = await cursor.fetchone()
            if row is None:
                raise LockError(self._name(value), f"{self._name(value)} is not there: insert it first")
            new = dict(change(dict(row)))
            if await self._write(cursor, value, row[self._version], new):
                return {**row, **new, self._version: row[self._version] + 1}
        text = f"{self._name(value)} was changed by others {self._tries} times in a row: where many write, use a lock"
        raise LockError(self._name(value), text)

    def change(self, function: Change[_P]) -> Callable[Concatenate[DictCursor, object, _P], Awaitable[Row]]:
        """Make of ``def f(row, …) -> columns`` a coroutine function ``f(cursor, key, …)`` that updates so."""

        @functools.wraps(function)
        async def update(cursor: DictCursor, value: object, /, *args: _P.args, **kwargs: _P.kwargs) -> Row:
            return await self.update(cursor, value, lambda row: function(row, *args, **kwargs))

        return update

    async def _write(self, cursor: DictCursor, value: object, version: int, new: Mapping[str, object]) -> bool:
        sets = "".join(f"{quoted(column)} = %s, " for column in new)
        count, key = quoted(self._version), quoted(self._key)
        statement = f"UPDATE {quoted(self._table)} SET {sets}{count} = {count} + 1 WHERE {key} = %s AND {count} = %s"
        return bool(await cursor.execute(statement, (*new.values(), value, version)))

    def _name(self, value: object) -> str:
        return f"{self._table}.{self._key}={value}"
