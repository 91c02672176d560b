"""The classic lock table, shared with services in other languages, and with a network that loses things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from aiodlock import LockClient
from aiodlock._core.line import Gone, Inside, LineId, Ticket, TicketId, Waiting
from aiodlock.backends.mysql import LockTable, LockTableColumns
from aiodlock.errors import AcquireTimeoutError, BackendDataError, BackendUnavailableError, UnsupportedError
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin

Make = Callable[..., Ticket]

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
    await admin.ask("INSERT INTO shared_locks VALUES ('job', UTC_TIMESTAMP(6), 60000, 'java-7', TRUE)")
    async with LockClient(table) as locks:
        assert await locks.lock("job").try_acquire() is None
        assert await locks.lock("job").holder() == "java-7"
        await admin.ask("UPDATE shared_locks SET for_ms = 100")
        async with locks.lock("job", ttl=5, wait=10):
            ((over,),) = await admin.ask("SELECT by_whom <> 'java-7' FROM shared_locks")
            assert over


async def test_the_watchdog_refreshes_the_time_and_notices_a_thief(table: LockTable, admin: Admin) -> None:
    async with LockClient(table) as locks:
        hold = await locks.lock("job", ttl=3).acquire()
        ((first,),) = await admin.ask("SELECT since FROM shared_locks")
        async with asyncio.timeout(20):
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


# --- rows of others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("owner", "name"), [("'java-7'", "java-7"), ("'host/java-7'", "host"), ("NULL", "unknown")])
async def test_a_row_of_others_is_named_and_can_be_freed(
    server: MariaDBServer, table: LockTable, admin: Admin, owner: str, name: str
) -> None:
    """Whatever they write as its owner."""
    await admin.ask("ALTER TABLE shared_locks MODIFY by_whom VARCHAR(255) NULL")
    await admin.ask(f"INSERT INTO shared_locks VALUES ('job', UTC_TIMESTAMP(6), 60000, {owner}, TRUE)")
    async with LockClient(table) as locks:
        lock = locks.lock("job")
        with pytest.raises(AcquireTimeoutError) as late:
            await lock.acquire(wait=0.1)
        assert late.value.holder == name
        assert await lock.holder() == name
        assert await lock.force_release() == 1
        assert await admin.ask("SELECT taken FROM shared_locks") == [(0,)]
        async with locks.lock("job", wait=10):
            pass


async def test_freeing_leaves_the_next_holder_alone(table: LockTable, admin: Admin) -> None:
    """Who came since the look has another id."""
    await admin.ask("INSERT INTO shared_locks VALUES ('job', UTC_TIMESTAMP(6), 60000, 'java-8', TRUE)")
    async with LockClient(table) as locks:
        await locks.backend.leave(Ticket.of(LineId("lock", "job"), TicketId("java-7")))
        assert await locks.lock("job").holder() == "java-8"


# --- tables that will not do -------------------------------------------------------------------------------


async def test_a_table_that_is_not_there_is_told_at_once(server: MariaDBServer) -> None:
    """With the statement that makes it."""
    with pytest.raises(BackendDataError, match=r"no_locks is not there: CREATE TABLE"):
        await LockClient(LockTable.from_url(server.url, table="no_locks")).start()


async def test_a_column_that_is_not_there_is_told_at_once(server: MariaDBServer, table: LockTable) -> None:
    with pytest.raises(BackendDataError, match=r"no column lock_key, lock_time, .*columns="):
        await LockClient(LockTable.from_url(server.url, table="shared_locks")).start()


async def test_a_time_in_whole_seconds_is_refused(table: LockTable, admin: Admin) -> None:
    """Its fences would repeat; the message has the cure, and it helps."""
    await admin.ask("ALTER TABLE shared_locks MODIFY since DATETIME NOT NULL")
    with pytest.raises(BackendDataError, match="fences would repeat") as refused:
        await LockClient(table).start()
    await admin.ask(str(refused.value).partition("repeat: ")[2])
    async with LockClient(table) as locks:
        fences = []
        for _ in range(5):
            async with locks.lock("job") as hold:
                fences.append(hold.fence)
    assert fences == sorted(set(fences))


async def test_a_timestamp_means_the_same_instant(server: MariaDBServer, table: LockTable, admin: Admin) -> None:
    """Where the server's time zone is not UTC, and others write NOW() into a column that knows of zones."""
    await admin.ask("ALTER TABLE shared_locks MODIFY since TIMESTAMP(6) NOT NULL DEFAULT NOW(6)")
    await admin.ask("SET SESSION time_zone = '-08:00'")
    await admin.ask("INSERT INTO shared_locks VALUES ('job', NOW(6), 60000, 'java-7', TRUE)")
    async with LockClient(table) as locks:
        assert await locks.lock("job").try_acquire() is None
        async with locks.lock("other", ttl=60):
            ages = await admin.ask("SELECT TIMESTAMPDIFF(SECOND, since, NOW()) FROM shared_locks WHERE name = 'other'")
            assert 0 <= ages[0][0] < 30


# --- faults ------------------------------------------------------------------------------------------------


@pytest.fixture
async def distant(table: LockTable, far: str) -> LockTable:
    """The same table, through the proxy."""
    return LockTable.from_url(far, table="shared_locks", columns=COLUMNS)


async def test_lost_replies_do_nothing_twice(distant: LockTable, proxy: FaultProxy, ticket: Make, admin: Admin) -> None:
    """A join is found by the next one, with the same owner; a leave is done."""
    came_back = asyncio.Event()
    await distant.open(lambda call: came_back.set())

    async def lose_reply(verb: Callable[[Ticket], object], mine: Ticket) -> None:
        proxy.drop_reply(match=b"shared_locks", times=1)
        with pytest.raises(BackendUnavailableError):
            await verb(mine)  # type: ignore[misc]
        async with asyncio.timeout(10):
            await came_back.wait()
        came_back.clear()

    mine, other = ticket(), ticket()
    await lose_reply(distant.join, mine)
    assert isinstance(await distant.join(other), Waiting)
    assert isinstance(await distant.join(mine), Inside)
    await lose_reply(distant.leave, mine)
    assert await distant.inspect("lock", "*") == []
    await distant.leave(mine)
    assert isinstance(await distant.join(other), Inside)
    await distant.aclose()
    assert distant._inside == {other.id}


async def test_a_ticket_whose_row_was_taken_over_is_gone(table: LockTable, ticket: Make, admin: Admin) -> None:
    """It is not taken anew by a renewal, and a renewal under way when it leaves is not remembered."""
    await table.open(lambda call: None)
    mine, second = ticket(), ticket(line=LineId("lock", "second"))
    await table.join(mine)
    await table.join(second)
    await admin.ask("UPDATE shared_locks SET taken = FALSE WHERE name <> 'second'")
    gone, kept = await table.renew([mine, second])
    assert isinstance(gone, Gone)
    assert isinstance(kept, Inside)
    await asyncio.gather(table.renew([second]), table.leave(second))
    assert table._inside == set()
    await table.aclose()


async def test_a_cancelled_acquire_leaves_no_row(
    server: MariaDBServer, distant: LockTable, proxy: FaultProxy, admin: Admin
) -> None:
    """Cancelled at any moment of its round trips."""
    proxy.delay(requests=0.004, replies=0.004)
    async with LockClient(distant) as locks:
        for step in range(0, 22, 2):
            task = asyncio.create_task(locks.lock(f"job-{step}", ttl=30).acquire())
            await asyncio.wait((task,), timeout=step / 1000)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).release()
        async with asyncio.timeout(10):
            while await admin.ask("SELECT name FROM shared_locks WHERE taken"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_an_outage_longer_than_the_lease_loses_the_hold(
    server: MariaDBServer, distant: LockTable, proxy: FaultProxy
) -> None:
    """Before another one gets in; and then all goes on."""
    async with LockClient(distant) as mine, LockClient(another(server)) as other:
        hold = await mine.lock("job", ttl=1).acquire()
        waiting = asyncio.create_task(other.lock("job", ttl=5, wait=20).acquire())
        proxy.refuse()
        proxy.reset()
        async with await waiting as later:
            assert hold.lost
            assert later.fence > hold.fence
        proxy.heal()
        async with mine.lock("job", wait=20):
            pass
