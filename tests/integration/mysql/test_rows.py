"""The classic locks on tables of the user's own, and the guard that refuses who comes late."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from asyncmy.cursors import DictCursor

from aiodlock.backends.mysql import RowLock, Versioned
from aiodlock.errors import (
    AcquireTimeoutError,
    ConfigurationError,
    LockError,
    TooManyWaitersError,
)
from tests.integration.mysql.conftest import Admin
from tests.integration.mysql.strangers import until_waiting

# --- RowLock -----------------------------------------------------------------------------------------------


async def test_a_row_is_changed_by_one_at_a_time(pool: Any, admin: Admin) -> None:
    """Read, think, write: nothing is lost."""
    lock = RowLock(pool, "stock")

    async def take() -> None:
        async with lock.row(1, wait=20) as (cursor, row):
            await asyncio.sleep(0.001)
            await cursor.execute("UPDATE stock SET amount = %s WHERE id = 1", (row["amount"] - 1,))

    await asyncio.gather(*(take() for _ in range(6)))
    assert await admin.amount() == 94
    assert lock.held == 0


async def test_without_the_lock_changes_are_lost(pool: Any, admin: Admin) -> None:
    """The broken twin: the same, without FOR UPDATE."""
    everybody_has_read = asyncio.Barrier(6)

    async def take() -> None:
        async with pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
            await cursor.execute("SELECT amount FROM stock WHERE id = 1")
            row = await cursor.fetchone()
            await everybody_has_read.wait()
            await cursor.execute("UPDATE stock SET amount = %s WHERE id = 1", (row["amount"] - 1,))

    await asyncio.gather(*(take() for _ in range(6)))
    assert await admin.amount() > 94


async def test_who_does_not_want_to_wait_is_told(pool: Any, admin: Admin) -> None:
    """At once, or after the time it gave; other rows are free meanwhile, and the session is as it was."""
    lock = RowLock(pool, "stock")
    async with lock.row(1):
        for wait in (0, 1):
            with pytest.raises(AcquireTimeoutError, match=r"stock\.id=1"):
                async with lock.row(1, wait=wait):
                    pass
        async with lock.row(2, wait=0):
            assert lock.held == 2
    async with pool.acquire() as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout")
        assert await cursor.fetchone() == (1,)


async def test_an_error_rolls_back_and_frees_the_row(pool: Any, admin: Admin) -> None:
    lock = RowLock(pool, "stock")
    with pytest.raises(ZeroDivisionError):
        async with lock.row(1) as (cursor, _):
            await cursor.execute("UPDATE stock SET amount = 0 WHERE id = 1")
            raise ZeroDivisionError
    assert await admin.amount() == 100
    async with lock.row(1, wait=0):
        pass


async def test_a_lock_of_the_whole_table_is_refused(pool: Any) -> None:
    """No index finds the row: every row would be locked."""
    with pytest.raises(ConfigurationError, match="CREATE INDEX"):
        async with RowLock(pool, "stock", key="name").row("pen"):
            pass
    with pytest.raises(LockError, match="not there"):
        async with RowLock(pool, "stock").row(99):
            pass
    with pytest.raises(ConfigurationError, match="no name"):
        RowLock(pool, "stock; DROP TABLE stock")


async def test_a_value_of_another_type_is_refused_whatever_was_locked_before(pool: Any, admin: Admin) -> None:
    """A number for a column of text finds its row by reading all, and would lock all."""
    await admin.ask("CREATE OR REPLACE TABLE seats (code VARCHAR(20) PRIMARY KEY, free INT) ENGINE = InnoDB")
    await admin.ask(f"INSERT INTO seats VALUES {', '.join(f'({n}, 1)' for n in range(1, 200))}")
    lock = RowLock(pool, "seats", key="code")
    async with lock.row("1"):
        pass
    with pytest.raises(ConfigurationError, match=r"'code'=5.*of the column's type"):
        async with lock.row(5):
            pass
    async with lock.row("5", wait=0), lock.row("77", wait=0):
        pass


async def test_a_row_is_locked_in_the_callers_own_transaction(pool: Any, admin: Admin) -> None:
    """Until that ends, and with whatever else it does."""
    lock = RowLock(pool, "stock")
    async with pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
        await connection.begin()
        row = await lock.take(cursor, 1)
        assert lock.held == 0  # it is the caller's
        with pytest.raises(AcquireTimeoutError):
            async with lock.row(1, wait=0):
                pass
        await cursor.execute("UPDATE stock SET amount = %s WHERE id = 1", (row["amount"] - 1,))
        await connection.commit()
        async with lock.row(1, wait=0) as (_, later):
            assert later["amount"] == 99


async def test_a_cancelled_wait_for_a_row_locks_nothing(pool: Any, admin: Admin) -> None:
    """Its connection is closed, the server rolls back, and the row is free when its holder ends."""
    lock = RowLock(pool, "stock")
    async with lock.row(1):
        waiting = asyncio.create_task(lock.row(1, wait=20).__aenter__())
        await until_waiting(admin, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert lock.held == 1
    async with lock.row(1, wait=10):
        pass


async def test_who_waits_as_long_as_the_server_is_told_how_long_that_was(pool: Any, admin: Admin) -> None:
    lock = RowLock(pool, "stock")
    async with lock.row(1), pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
        await cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        with pytest.raises(AcquireTimeoutError) as late:
            await lock.take(cursor, 1)
        assert late.value.waited > 0.5
        await cursor.execute("SET SESSION innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout")


async def test_held_connections_are_bounded(pool: Any) -> None:
    lock = RowLock(pool, "stock", most=1)
    async with lock.row(1):
        with pytest.raises(TooManyWaitersError, match="raise most"):
            async with lock.row(2):
                pass


async def test_without_a_bound_the_pool_would_be_waited_for_in_vain(pool: Any) -> None:
    """The broken twin: who holds all connections waits for one more."""
    lock = RowLock(pool, "stock", most=1000)
    async with AsyncExitStack() as stack:
        for _ in range(pool.maxsize):
            await stack.enter_async_context(pool.acquire())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), lock.row(1):
                pass
        assert lock.held == 0


# --- Versioned ---------------------------------------------------------------------------------------------


async def test_an_optimistic_change_is_repeated_until_nobody_was_quicker(pool: Any, admin: Admin) -> None:
    """As often as it takes, within its tries; every change counts."""
    versioned = Versioned("stock", tries=50)

    @versioned.change
    def take(row: dict[str, Any], count: int) -> dict[str, object]:
        return {"amount": row["amount"] - count}

    async def buy() -> None:
        async with pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
            await take(cursor, 1, 2)

    await asyncio.gather(*(buy() for _ in range(6)))
    assert await admin.ask("SELECT amount, version FROM stock WHERE id = 1") == [(88, 6)]


async def test_who_is_always_too_late_gives_up(pool: Any, admin: Admin) -> None:
    """Somebody changes the row between every read and write."""
    async with pool.acquire() as connection, connection.cursor(DictCursor) as cursor:
        seen: list[int] = []

        async def overtaken() -> None:
            original = cursor.fetchone

            async def fetch_and_be_overtaken() -> Any:
                row = await original()
                seen.append(row["version"])
                await admin.ask("UPDATE stock SET version = version + 1 WHERE id = 1")
                return row

            patched = _Overtaken(cursor, fetch_and_be_overtaken)
            await Versioned("stock", tries=3).update(patched, 1, lambda row: {"amount": 0})  # type: ignore[arg-type]

        with pytest.raises(LockError, match="3 times in a row"):
            await overtaken()
        assert seen == [0, 1, 2]
    assert await admin.amount() == 100


class _Overtaken:
    def __init__(self, cursor: DictCursor, fetchone: Any) -> None:
        self.execute, self.fetchone = cursor.execute, fetchone
