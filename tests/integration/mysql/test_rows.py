"""The classic locks on tables of the user's own, and the guard that refuses who comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncmy
import pytest
from asyncmy.cursors import DictCursor

from aiodlock import LockClient
from aiodlock.backends.mysql import LockTable, LockTableColumns, RowLock, Versioned
from aiodlock.errors import (
    AcquireTimeoutError,
    ConfigurationError,
    LockError,
    LockLostError,
    TooManyWaitersError,
    UnsupportedError,
)
from aiodlock.guards.sql import SqlGuard
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin


@pytest.fixture
async def pool(server: MariaDBServer, admin: Admin) -> AsyncIterator[Any]:
    """Connections of the application, to a table of stock with one row."""
    await admin.ask("DROP TABLE IF EXISTS stock")
    await admin.ask(
        "CREATE TABLE stock (id INT PRIMARY KEY, name VARCHAR(20), amount INT, version INT NOT NULL DEFAULT 0, "
        "fence BIGINT NOT NULL DEFAULT 0) ENGINE = InnoDB"
    )
    await admin.ask("INSERT INTO stock (id, name, amount) VALUES (1, 'pen', 100), (2, 'ink', 100)")
    pool = await asyncmy.create_pool(
        host="127.0.0.1", port=server.port, user="root", database=server.database, autocommit=True, minsize=1, maxsize=8
    )
    yield pool
    pool.close()
    await pool.wait_closed()


async def amount(admin: Admin) -> int:
    return int((await admin.ask("SELECT amount FROM stock WHERE id = 1"))[0][0])


# --- RowLock -----------------------------------------------------------------------------------------------


async def test_a_row_is_changed_by_one_at_a_time(pool: Any, admin: Admin) -> None:
    """Read, think, write: nothing is lost."""
    lock = RowLock(pool, "stock")

    async def take() -> None:
        async with lock.row(1, wait=20) as (cursor, row):
            await asyncio.sleep(0.001)
            await cursor.execute("UPDATE stock SET amount = %s WHERE id = 1", (row["amount"] - 1,))

    await asyncio.gather(*(take() for _ in range(6)))
    assert await amount(admin) == 94
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
    assert await amount(admin) > 94


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
    assert await amount(admin) == 100
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


async def test_held_connections_are_bounded(pool: Any) -> None:
    lock = RowLock(pool, "stock", most=1)
    async with lock.row(1):
        with pytest.raises(TooManyWaitersError, match="raise most"):
            async with lock.row(2):
                pass


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
    assert await amount(admin) == 100


class _Overtaken:
    def __init__(self, cursor: DictCursor, fetchone: Any) -> None:
        self.execute, self.fetchone = cursor.execute, fetchone


# --- the guard ---------------------------------------------------------------------------------------------


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
    assert await amount(admin) == 40


async def test_an_unguarded_write_lets_it_through(pool: Any, admin: Admin) -> None:
    """The broken twin."""
    guard = SqlGuard("stock")
    async with pool.acquire() as connection, connection.cursor() as cursor:
        await guard.update(cursor, 1, {"amount": 40}, fence=2000)
        await cursor.execute("UPDATE stock SET amount = 99, fence = 1000 WHERE id = 1")
    assert await amount(admin) == 99


@pytest.mark.parametrize("fence", [0, -1, 1 << 63])
async def test_what_is_no_fence_is_refused(fence: int) -> None:
    with pytest.raises(ConfigurationError, match=r"hold\.fence"):
        await SqlGuard("stock").update(None, 1, {}, fence=fence)  # type: ignore[arg-type]


# --- LockTable ---------------------------------------------------------------------------------------------

COLUMNS = LockTableColumns(key="name", time="since", duration="for_ms", owner="by_whom", locked="taken")


@pytest.fixture
async def table(server: MariaDBServer, admin: Admin) -> LockTable:
    backend = LockTable.from_url(server.url, table="shared_locks", columns=COLUMNS)
    await admin.ask("DROP TABLE IF EXISTS shared_locks")
    await admin.ask(backend.definition)
    return backend


def another(server: MariaDBServer) -> LockTable:
    return LockTable.from_url(server.url, table="shared_locks", columns=COLUMNS)


async def test_the_table_excludes_and_hands_over(server: MariaDBServer, table: LockTable, admin: Admin) -> None:
    """Across clients, in the columns that others read; a released row is free."""
    async with LockClient(table, name="mine") as mine, LockClient(another(server), name="other") as other:
        async with mine.lock("job", ttl=5) as hold:
            assert await other.lock("job").try_acquire() is None
            assert await other.lock("job").holder() == "mine"
            ((taken, whom, milliseconds),) = await admin.ask("SELECT taken, by_whom, for_ms FROM shared_locks")
            assert (taken, whom.partition("/")[0], milliseconds) == (1, "mine", 5000)
            waiter = asyncio.create_task(other.lock("job", ttl=5).acquire())
        async with await waiter as next_:
            assert next_.fence > hold.fence
    assert await admin.ask("SELECT taken FROM shared_locks") == [(0,)]


async def test_another_languages_row_is_respected_until_its_time_is_over(table: LockTable, admin: Admin) -> None:
    await admin.ask("INSERT INTO shared_locks VALUES ('job', UTC_TIMESTAMP(6), 400, 'java-7', TRUE)")
    async with LockClient(table) as locks:
        assert await locks.lock("job").try_acquire() is None
        assert await locks.lock("job").holder() == "java-7"
        async with locks.lock("job", ttl=5, wait=5):
            ((over,),) = await admin.ask("SELECT by_whom <> 'java-7' FROM shared_locks")
            assert over


async def test_the_watchdog_refreshes_the_time_and_notices_a_thief(table: LockTable, admin: Admin) -> None:
    async with LockClient(table) as locks:
        hold = await locks.lock("job", ttl=2).acquire()
        ((first,),) = await admin.ask("SELECT since FROM shared_locks")
        async with asyncio.timeout(5):
            while (await admin.ask("SELECT since FROM shared_locks")) == [(first,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not hold.lost
            await admin.ask("UPDATE shared_locks SET by_whom = 'thief', for_ms = 60000")
            await hold.wait_lost()
        assert await locks.lock("job").try_acquire() is None
    assert await admin.ask("SELECT by_whom, taken FROM shared_locks") == [("thief", 1)]


async def test_what_a_row_cannot_say_is_refused(table: LockTable) -> None:
    async with LockClient(table) as locks:
        with pytest.raises(UnsupportedError):
            await locks.semaphore("gpu", permits=2).acquire(wait=1)
