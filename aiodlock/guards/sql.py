"""A guard for rows of MySQL or MariaDB, over your own cursor: asyncmy's, or another with ``%s`` parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aiodlock._core.fence import check_fence
from aiodlock.errors import ConfigurationError, LockError, LockLostError

__all__ = ["Cursor", "SqlGuard"]


class Cursor(Protocol):
    """The part of a cursor that a guard uses; its rows are tuples, or mappings by the names of columns."""

    async def execute(self, statement: str, parameters: Sequence[object], /) -> Any: ...

    async def fetchone(self) -> Any: ...


class SqlGuard:
    """Changes rows of *table* that are written to under locks of any backend.

    The column *fence*, ``BIGINT NOT NULL DEFAULT 0``, keeps the newest fence that wrote to a row. Every write to a
    guarded row has to go through a guard: a plain ``UPDATE`` asks nobody.
    """

    def __init__(self, table: str, *, key: str = "id", fence: str = "fence") -> None:
        self._table, self._key, self._fence = _quoted(table), _quoted(key), _quoted(fence)

    async def update(self, cursor: Cursor, row: object, columns: Mapping[str, object], *, fence: int) -> None:
        """Write *columns* of the row whose key is *row*, in the transaction that *cursor* is in.

        ``await guard.update(cursor, 42, {"left_over": 17}, fence=hold.fence)``. The same fence may write any number of
        times; an older one than the last raises `LockLostError`, and nothing is written. `LockError`: no such row.

        Cancellation: the write may or may not be done; it can be repeated with the same fence.
        """
        check_fence(fence)
        sets = "".join(f"{_quoted(column)} = %s, " for column in columns)
        statement = f"UPDATE {self._table} SET {sets}{self._fence} = %s WHERE {self._key} = %s AND {self._fence} <= %s"
        if not await cursor.execute(statement, (*columns.values(), fence, row, fence)):
            await self._explain(cursor, row, fence)

    async def newest(self, cursor: Cursor, row: object) -> int | None:
        """Return the newest fence that wrote to the row, as the transaction sees it; None if there is no such row.

        Cancellation: nothing is left behind.
        """
        return await self._read(cursor, row, "")

    async def _read(self, cursor: Cursor, row: object, how: str) -> int | None:
        await cursor.execute(f"SELECT {self._fence} FROM {self._table} WHERE {self._key} = %s{how}", (row,))
        match await cursor.fetchone():
            case None:
                return None
            case Mapping() as columns:
                return int(next(iter(columns.values())))
            case columns:
                return int(columns[0])

    async def _explain(self, cursor: Cursor, row: object, fence: int) -> None:
        """Say why the update changed nothing, by the row as it is: a snapshot shows it as it was when we first read."""
        newest = await self._read(cursor, row, " FOR UPDATE")
        name = f"{self._table}.{self._key}={row}".replace("`", "")
        if newest is None:
            raise LockError(name, f"{name} is not there: insert it before it is guarded")
        # The same one has written already, with the same values: the server counts rows that change.
        if newest != fence:
            raise LockLostError(name, reason=f"fence {fence} came after {newest}: a later holder has written")


def _quoted(name: str) -> str:
    if not name.replace("_", "").replace("$", "").replace(".", "").isalnum() or not name.isascii():
        raise ConfigurationError(f"{name!r} is no name of a table or column: give letters, digits, _ and $")
    return ".".join(f"`{part}`" for part in name.split("."))
