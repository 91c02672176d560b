"""The guard of rows that refuses who comes late, whatever its transaction has seen and its cursor looks like."""

from __future__ import annotations

from typing import Any

import pytest
from asyncmy.cursors import DictCursor

from aiodlock.errors import ConfigurationError, LockError, LockLostError
from aiodlock.guards.sql import SqlGuard
from tests.integration.mysql.conftest import Admin


async def test_a_late_writer_is_refused(pool: Any, admin: Admin) -> None:
    guard = SqlGuard("stock")
    async with pool.acquire() as connection, connection.cursor() as cursor:
        await guard.update(cursor, 1, {"amount": 50}, fence=1000)
        for _ in range(2):  # the same fence, also with the same values
            await guard.update(cursor, 1, {"amount": 40}, fence=2000)
        with pytest.raises(LockLostError, match="fence 1000 came after 2000"):
            await guard.update(cursor, 1, {"amount": 99}, fence=1000)
        with pytest.raises(LockError, match="not there"):
            await guard.update(cursor, 77, {"amount": 99}, fence=3000)
        assert await guard.newest(cursor, 1) == 2000
    assert await admin.amount() == 40


async def test_an_unguarded_write_lets_it_through(pool: Any, admin: Admin) -> None:
    """The broken twin."""
    guard = SqlGuard("stock")
    async with pool.acquire() as connection, connection.cursor() as cursor:
        await guard.update(cursor, 1, {"amount": 40}, fence=2000)
        await cursor.execute("UPDATE stock SET amount = 99, fence = 1000 WHERE id = 1")
    assert await admin.amount() == 99


@pytest.mark.parametrize("fence", [0, -1, 1 << 63, True, 1.5])
async def test_what_is_no_fence_is_refused(fence: Any) -> None:
    with pytest.raises(ConfigurationError, match="fence of a hold"):
        await SqlGuard("stock").update(None, 1, {}, fence=fence)  # type: ignore[arg-type]


async def write_after_a_later_holder(pool: Any, admin: Admin, guard: SqlGuard) -> None:
    """Read in a transaction, be overtaken by a later holder, and write with the old fence."""
    async with pool.acquire() as connection, connection.cursor() as cursor:
        await connection.begin()
        try:
            await cursor.execute("SELECT amount FROM stock WHERE id = 1")
            await admin.ask("UPDATE stock SET amount = 50, fence = 2000 WHERE id = 1")
            await guard.update(cursor, 1, {"amount": 99}, fence=1000)
        finally:
            await connection.rollback()


async def test_a_late_writer_is_refused_whatever_its_transaction_has_seen(pool: Any, admin: Admin) -> None:
    """Its snapshot (REPEATABLE READ) still shows the row as it was; it is told all the same that it was not written."""
    with pytest.raises(LockLostError, match="fence 1000 came after 2000"):
        await write_after_a_later_holder(pool, admin, SqlGuard("stock"))
    assert await admin.amount() == 50


async def test_a_guard_that_looks_into_the_snapshot_believes_that_it_wrote(pool: Any, admin: Admin) -> None:
    """The broken twin."""

    class Naive(SqlGuard):
        async def _explain(self, cursor: Any, row: object, fence: int) -> None:
            if (await self.newest(cursor, row) or 0) > fence:
                raise LockLostError("stock", reason="late")

    await write_after_a_later_holder(pool, admin, Naive("stock"))
    assert await admin.amount() == 50


async def test_a_cursor_may_give_rows_as_mappings(pool: Any) -> None:
    """As the one that `RowLock.row` hands out."""
    guard = SqlGuard("stock")
    async with pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
        for _ in range(2):
            await guard.update(cursor, 1, {"amount": 40}, fence=2000)
        with pytest.raises(LockLostError, match="fence 1000 came after 2000"):
            await guard.update(cursor, 1, {"amount": 99}, fence=1000)
        with pytest.raises(LockError, match="not there"):
            await guard.update(cursor, 77, {"amount": 99}, fence=3000)
        assert await guard.newest(cursor, 1) == 2000
