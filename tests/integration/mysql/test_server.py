"""What the server does with us, and we with it: locks, deadlocks, connections, rights, and other servers."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncmy
import pytest

import aiodlock
from aiodlock._core.line import AskedToGo, Called, Inside, Ticket, Waiting
from aiodlock.backends.mysql import MySQLBackend
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.backends.mysql.packets import Prepared, Refusal, Result
from aiodlock.backends.mysql.queries import line_name, literal, to_int
from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError, ConfigurationError
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer
from aiodlock.testing.servers.tls import make_certificates
from tests.integration.mysql.conftest import Admin, Client
from tests.integration.mysql.strangers import row_of_ticket, transaction, until_waiting

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


# --- locks of InnoDB ---------------------------------------------------------------------------------------


async def locks_of_a_waiting_verb(server: MariaDBServer, admin: Admin, client: Client, ticket: Make) -> str:
    """Stop a verb that sweeps and lets somebody in, and return what InnoDB says of its locks."""
    await admin.ask("SET GLOBAL innodb_status_output_locks = ON")
    dead, holder, waiter = ticket(size=2, ttl=0.5), ticket(size=2), ticket(size=2, weight=2)
    for mine in (dead, holder, waiter):
        await client.backend.join(mine)
    while len(await client.backend.inspect(*dead.line)) > 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with transaction(server, row_of_ticket(waiter)) as other:
        leaving = asyncio.ensure_future(client.backend.leave(holder))
        await until_waiting(admin, 1)
        ((_, _, status),) = await admin.ask("SHOW ENGINE INNODB STATUS")
        await other.ask("ROLLBACK")
        await leaving
    assert isinstance(await client.backend.join(waiter), Inside)
    now = status.partition("\nTRANSACTIONS\n")[2]  # before it stands the last deadlock of whatever test
    return str(now.partition("LOCK WAIT")[2].partition("---TRANSACTION")[0])


async def test_verbs_take_no_gap_locks(server: MariaDBServer, admin: Admin, client: Client, ticket: Make) -> None:
    """Rows only: of the line, of the ticket that leaves, of one that is swept, and of one that is let in."""
    status = await locks_of_a_waiting_verb(server, admin, client, ticket)
    locks = [text for text in status.splitlines() if "lock_mode" in text]
    assert len(locks) >= 3
    assert [text for text in locks if "rec but not gap" not in text] == []


async def test_repeatable_read_would_take_gap_locks(
    server: MariaDBServer, admin: Admin, client: Client, ticket: Make
) -> None:
    """The broken twin."""
    assert client.backend._node._link
    await client.backend._node._link.ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    status = await locks_of_a_waiting_verb(server, admin, client, ticket)
    assert [text for text in status.splitlines() if "lock_mode" in text and "rec but not gap" not in text]


# --- connections -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holders", [1, 3])
async def test_two_connections_per_client_however_many_wait(server: MariaDBServer, admin: Admin, holders: int) -> None:
    """And none of them asks anything while it waits, besides renewals; also where several could leave."""
    async with aiodlock.connect(server.url) as mine, aiodlock.connect(server.url) as other:
        keys = [f"many-{holders}-{n}" for n in range(20)]
        held = [await mine.semaphore(key, permits=holders, ttl=60).acquire() for key in keys for _ in range(holders)]
        waits = (other.semaphore(key, permits=holders, ttl=60).acquire() for key in keys for _ in range(5))
        waiting = [asyncio.create_task(wait) for wait in waits]
        tickets = 20 * min(5, holders)  # a client has no more of them than permits
        await _until_waiting(admin, f"semaphore:many-{holders}-%", tickets)
        async with asyncio.timeout(10):
            while len(await admin.connections()) != 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # those of the test before end
        began, before = time.monotonic(), await _questions(admin)
        await asyncio.sleep(2.0)  # a time to count in, not one to wait for something
        asked, renewals = await _questions(admin) - before, tickets * ((time.monotonic() - began) / (5 / 3) + 1)
        # A renewal is some 25 statements on the server; 20 lines polled every 50 ms would be 20,000 of them in 2 s.
        assert asked <= 30 * renewals
        for hold in held:
            hold.release_nowait()
        for task in waiting:
            task.cancel()
        for task in waiting:
            with suppress(asyncio.CancelledError):
                (await task).release_nowait()


async def _questions(admin: Admin) -> int:
    ((_, count),) = await admin.ask("SHOW GLOBAL STATUS LIKE 'Queries'")
    return int(count)


async def _until_waiting(admin: Admin, lines: str, count: int) -> None:
    question = f"SELECT COALESCE(SUM(waiting), 0) FROM aiodlock_lines WHERE line LIKE '{lines}'"
    async with asyncio.timeout(10):
        while int((await admin.ask(question))[0][0]) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_without_a_connection_to_listen_on_a_client_looks(ticket: Make) -> None:
    """The server has one connection left: waiting still works, by looking; with none left, connecting says why."""
    with MariaDBServer(arguments=("--max-connections=10",)) as small:
        links = [await Link.open(Address.from_url(small.url)) for _ in range(9)]
        address = small.url.replace("root@", "guest@")
        await links[0].ask("CREATE USER guest@'%'; GRANT ALL ON aiodlock.* TO guest@'%'")
        first, second = MySQLBackend.from_url(address), MySQLBackend.from_url(address)
        await first.open(lambda call: None)
        assert not first._bell.is_heard
        await first.join(ticket())
        answer = await first.join(ticket())
        assert isinstance(answer, Waiting)
        assert answer.look_again < 0.1
        with pytest.raises(BackendUnavailableError, match="Too many connections"):
            await second.open(lambda call: None)
        for link in links:
            await link.aclose()
        await first.aclose()


async def answers_after_a_cancel(proxy: FaultProxy) -> list[object]:
    """Cancel a query of the driver at any moment, and return what the next one on the same connection is told."""
    proxy.delay(replies=0.01)
    answers: list[object] = []
    for step in range(12):
        connection = await asyncmy.connect(host="127.0.0.1", port=proxy.port, user="root")
        first = asyncio.create_task(connection.query("SELECT 'first'"))
        await asyncio.wait((first,), timeout=step / 500)
        first.cancel()
        await asyncio.wait((first,))
        try:
            await connection.query("SELECT 'second'")
            answers.append(connection._result.rows)
        except asyncmy.errors.Error:
            pass  # closed, because in doubt
        finally:
            connection.close()
    return answers


async def test_a_reply_never_reaches_another_call(proxy: FaultProxy, server: MariaDBServer) -> None:
    """The canary for the driver: cancelled at any moment, a connection gives its next caller its own answer or none."""
    assert set(await answers_after_a_cancel(proxy)) <= {(("second",),)}


async def test_a_driver_that_goes_on_after_a_cancel_is_found(
    proxy: FaultProxy, server: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(asyncmy.connection.Connection, "_close_on_cancel", lambda self: None)
    assert (("first",),) in await answers_after_a_cancel(proxy)


async def join_and_leave_together(client: Client, other: Client, ticket: Make) -> list[str]:
    """Send a join that meets somebody, and its leave right behind it; return whose tickets are there then."""
    before, holder, mine = ticket(), ticket(), ticket()
    await client.backend.join(before)  # so that it knows the line, and tries the shortcut
    await client.backend.leave(before)
    await other.backend.join(holder)
    answers = await asyncio.gather(client.backend.join(mine), client.backend.leave(mine))
    assert isinstance(answers[0], Waiting)
    left = [row.id for row in await other.backend.inspect(*mine.line)]
    return ["holder" if id == holder.id else "left behind" for id in left]


async def test_a_leave_does_not_overtake_a_join_that_has_to_ask_twice(
    client: Client, other: Client, ticket: Make
) -> None:
    """The shortcut finds somebody there: the call goes out before whatever was asked meanwhile."""
    assert await join_and_leave_together(client, other, ticket) == ["holder"]


async def test_asking_again_behind_the_others_would_leave_a_ticket(
    client: Client, other: Client, ticket: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    node = client.backend._node

    def behind(left: deque[Any]) -> None:
        node._orders.extend(left)
        left.clear()
        as_it_is(left)

    as_it_is = node.batch_over
    monkeypatch.setattr(node, "batch_over", behind)
    assert await join_and_leave_together(client, other, ticket) == ["holder", "left behind"]


async def _executed(admin: Admin) -> int:
    ((_, count),) = await admin.ask("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")
    return int(count)


async def test_entering_and_leaving_alone_execute_one_kept_statement_each(
    client: Client, admin: Admin, ticket: Make
) -> None:
    """One question each, which the server does not parse again; the first visit of a line is a call and a statement."""
    first, mine = ticket(), ticket()
    await client.backend.join(first)
    await client.backend.leave(first)
    executed, asked = await _executed(admin), await _questions(admin)
    assert isinstance(await client.backend.join(mine), Inside)
    await client.backend.leave(mine)
    assert await _executed(admin) - executed == 2
    assert await _questions(admin) - asked == 2 + 2  # and two of ours, to count


async def test_a_server_that_keeps_no_more_statements_is_called(
    client: Client, admin: Admin, connect: Connect, ticket: Make
) -> None:
    """Its limit is reached: a client connects, and does everything by procedures."""
    ((limit,),) = await admin.ask("SELECT @@global.max_prepared_stmt_count")
    await admin.ask("SET GLOBAL max_prepared_stmt_count = 0")
    try:
        other = await connect()
    finally:
        await admin.ask(f"SET GLOBAL max_prepared_stmt_count = {limit}")
    executed = await _executed(admin)
    for mine in (ticket(), ticket()):
        assert isinstance(await other.backend.join(mine), Inside)
        await other.backend.leave(mine)
    assert await _executed(admin) == executed


async def test_a_kept_statement_that_the_server_forgot_is_called_instead(client: Client, ticket: Make) -> None:
    """The server refuses it: the verb is done by a procedure, over the same connection."""
    before, mine = ticket(), ticket()
    await client.backend.join(before)  # so that it knows the line
    await client.backend.leave(before)
    link = client.backend._node._link
    assert link
    link.prepared = {name: Prepared(4711, names) for name, names in (("enter", ["line"]), ("go", ["line"]))}
    assert isinstance(await client.backend.join(mine), Inside)
    await client.backend.leave(mine)
    assert await client.backend.inspect(*mine.line) == []
    assert client.backend._node._link is link


async def test_mail_that_was_read_is_deleted_once(client: Client, other: Client, ticket: Make) -> None:
    """However often somebody rings: what is to be deleted does not grow with every call."""
    for _ in range(10):
        holder, mine = ticket(), ticket()
        await other.backend.join(holder)
        await client.backend.join(mine)
        await other.backend.leave(holder)
        assert [call.id for call in await client.told() if isinstance(call, Called)] == [mine.id]
        await client.backend.leave(mine)
    assert len(client.backend._bell._read) <= 2


async def test_a_reader_that_loses_its_place_loses_its_connection(client: Client, ticket: Make) -> None:
    """Whatever it raises, the verb fails, the next connection is a new one, and nobody waits for ever."""

    def confused(data: bytes) -> list[Result | Refusal]:
        raise IndexError("packet out of order")

    link = client.backend._node._link
    assert link
    link._reader.feed = confused  # type: ignore[method-assign]
    with pytest.raises(BackendUnavailableError, match="out of order"):
        await client.backend.join(ticket())
    await client.reconnected.wait()
    assert isinstance(await client.backend.join(ticket()), Inside | Waiting)


async def test_an_answer_that_cannot_be_read_fails_its_verb(client: Client, ticket: Make) -> None:
    """The caller hears it, nobody waits for ever, and the connection goes on."""
    with pytest.raises(BackendDataError, match="does not know"):
        await client.backend._node.send("DO 0", to_int)
    assert isinstance(await client.backend.join(ticket()), Inside)
    assert client.backend._node.via == 1


async def test_a_connection_lost_while_it_is_greeted_is_not_used(client: Client, ticket: Make) -> None:
    """The end comes together with the last answer: another connection is made."""
    node, lost = client.backend._node, list[Link]()
    greet = node._greet

    async def greeted_and_lost(link: Link) -> None:
        await greet(link)
        if not lost:
            lost.append(link)
            link.abort("in that moment")

    node._greet = greeted_and_lost
    assert node._link
    node._link.abort("to begin with")
    async with asyncio.timeout(10):
        await client.reconnected.wait()
    assert isinstance(await client.backend.join(ticket()), Inside)
    assert node._link not in (None, *lost)


async def test_the_end_of_the_listening_connection_is_no_loose_error(client: Client) -> None:
    """It waits and has asked for its mail: both end, and the loop is told of no error that nobody heard."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    link = client.backend._bell._link
    assert link
    link._transport.abort()
    async with asyncio.timeout(10):
        while client.backend._bell._link in (link, None):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


async def test_what_is_over_is_cleared_away(client: Client, admin: Admin, ticket: Make) -> None:
    """Lines with all their tombstones, latches and mail, in small steps; what lives stays."""
    mine = ticket(ttl=60)
    await client.backend.join(mine)
    for number in range(5):
        dead = f"'lock:dead-{number}'"
        await admin.ask(f"INSERT INTO aiodlock_lines (line, size, soonest, kept) VALUES ({dead}, 1, 1, 1)")
        await admin.ask(f"INSERT INTO aiodlock_tickets VALUES ({dead}, 'x', 3, 1, 1, 1, 1, 1, '', '', NULL)")
        await admin.ask(f"INSERT INTO aiodlock_latches VALUES ({dead}, 1, 1)")
        await admin.ask(f"INSERT INTO aiodlock_latch_marks VALUES ({dead}, 'oops')")
        await admin.ask(f"INSERT INTO aiodlock_mail VALUES ({1000 + number}, 'gone', 'I', {dead}, 'x', 1, 0, '', 1)")
    await admin.ask("CALL aiodlock_forget(3)")
    left = "SELECT COUNT(*) FROM aiodlock_{} WHERE line LIKE 'lock:dead-%'"
    tables = ("lines", "tickets", "latches", "latch_marks", "mail")
    assert [(await admin.ask(left.format(table)))[0][0] for table in tables] == [2] * 5
    await admin.ask("CALL aiodlock_forget(100)")
    assert [(await admin.ask(left.format(table)))[0][0] for table in tables] == [0] * 5
    (again,) = await client.backend.renew([mine])
    assert isinstance(again, Inside)


async def test_epochs_go_on_growing_after_a_line_was_forgotten(client: Client, admin: Admin, ticket: Make) -> None:
    """Clearing away never sets an epoch back."""
    before, after = ticket(), ticket()
    first = await client.backend.join(before)
    await client.backend.leave(before)
    name = literal(line_name(before.line))
    await admin.ask(f"UPDATE aiodlock_lines SET kept = 1 WHERE line = {name}")
    await admin.ask("CALL aiodlock_forget(1000)")
    assert await admin.ask(f"SELECT line FROM aiodlock_lines WHERE line = {name}") == []
    second = await client.backend.join(after)
    assert isinstance(first, Inside)
    assert isinstance(second, Inside)
    assert second.epoch > first.epoch


async def test_a_holder_that_cannot_be_called_hears_with_its_renewal_that_it_is_asked_to_go(
    connect: Connect, client: Client, ticket: Make
) -> None:
    """Once asked it hears so again and again; others inside get mail."""
    silent = await connect(pushes=False)
    mine, other = ticket(size=2), ticket(size=2)
    await silent.backend.join(mine)
    await client.backend.join(other)
    assert await client.backend.revoke(mine.line, "deploy") == 2
    assert [call for call in await client.told() if isinstance(call, AskedToGo)] == [AskedToGo(other.id, "deploy", 1)]
    assert silent.calls == []
    for _ in range(2):
        (answer,) = await silent.backend.renew([mine])
        assert isinstance(answer, Inside)
    assert silent.calls == [AskedToGo(mine.id, "deploy", 1)] * 2


# --- rights, versions, other servers -----------------------------------------------------------------------


async def test_a_replica_is_refused_and_a_primary_that_becomes_one_is_left(ticket: Make) -> None:
    """As behind a name that moves: the verb fails, and the client comes back when writes are taken again."""
    with MariaDBServer() as own:
        link = await Link.open(Address.from_url(own.url))
        await link.ask("CREATE USER app@'%'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON *.* TO app@'%'")
        maker = MySQLBackend.from_url(own.url)
        await maker.open(lambda call: None)
        await maker.aclose()
        came_back = asyncio.Event()
        backend = MySQLBackend.from_url(own.url.replace("root@", "app@"))
        await backend.open(lambda call: came_back.set())
        await link.ask("SET GLOBAL read_only = ON")
        with pytest.raises(BackendUnavailableError, match="read-only"):
            await backend.join(ticket())
        with pytest.raises(BackendUnavailableError, match="not the primary"):
            await MySQLBackend.from_url(own.url.replace("root@", "app@")).open(lambda call: None)
        await link.ask("SET GLOBAL read_only = OFF")
        await asyncio.wait_for(came_back.wait(), 10)
        assert isinstance(await backend.join(ticket()), Inside)
        await backend.aclose()
        await link.aclose()


async def test_who_may_not_create_is_told_what_to_do(server: MariaDBServer, admin: Admin) -> None:
    await admin.ask("CREATE DATABASE IF NOT EXISTS bare")
    url = server.url.replace(server.database, "bare")
    with pytest.raises(BackendDataError, match="aiodlock mysql init"):
        await MySQLBackend.from_url(url, create=False).open(lambda call: None)
    await admin.ask("CREATE OR REPLACE USER poor@'%'")
    await admin.ask("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON bare.* TO poor@'%'")
    with pytest.raises(BackendError, match="grant"):
        await MySQLBackend.from_url(url.replace("root@", "poor@")).open(lambda call: None)


async def test_tables_of_a_newer_version_are_left_alone(server: MariaDBServer, admin: Admin, client: Client) -> None:
    await admin.ask("CREATE DATABASE newer")
    await admin.ask("CREATE TABLE newer.aiodlock_versions (version INT PRIMARY KEY)")
    await admin.ask("INSERT INTO newer.aiodlock_versions VALUES (999)")
    with pytest.raises(BackendDataError, match=r"999.*upgrade aiodlock"):
        await MySQLBackend.from_url(server.url.replace(server.database, "newer")).open(lambda call: None)


async def test_tables_of_the_second_version_get_followers_at_the_next_connect(
    server: MariaDBServer, admin: Admin, connect: Connect, ticket: Make
) -> None:
    """Who was inside stays, and what it does not know of is added around it."""
    await admin.ask("CREATE DATABASE second")
    url = server.url.replace(server.database, "second")
    holder, waiter = ticket(), ticket()
    old = await connect(url)
    await old.backend.join(holder)
    names = ("", "_weight", "_since", "_ends", "_client", "_owner")
    columns = ", ".join(f"DROP COLUMN follower{name}" for name in names)
    await admin.ask(f"ALTER TABLE second.aiodlock_lines {columns}")
    await admin.ask("UPDATE second.aiodlock_versions SET version = 2")
    new = await connect(url)
    assert isinstance(await new.backend.join(waiter), Waiting)
    assert await admin.ask("SELECT follower FROM second.aiodlock_lines") == [(waiter.id.encode(),)]
    await old.backend.leave(holder)
    assert isinstance(await new.backend.join(waiter), Inside)


def test_nothing_is_sent_in_clear_to_another_machine() -> None:
    """Unless it is asked for; and the password is in no message."""
    with pytest.raises(ConfigurationError, match="in clear: give mysqls://") as refused:
        MySQLBackend.from_url("mysql://app:secret@db.example/shop")
    assert "secret" not in str(refused.value)
    assert MySQLBackend.from_url("mysql://app:secret@db.example/shop", plaintext=True).address
    assert MySQLBackend.from_url("mysqls://app:secret@db.example/shop").address == "mysqls://db.example:3306/shop"
    assert MySQLBackend.from_url("mysql://app:secret@127.0.0.1/shop").address == "mysql://127.0.0.1:3306/shop"
    assert MySQLBackend.from_url("mysql://app:secret@db.example/shop?plaintext=true").address  # as the commands need it
    with pytest.raises(ConfigurationError, match="in clear: give mysqls://"):
        Address(host="db.example", database="shop")
    with pytest.raises(ConfigurationError, match="in clear: give mysqls://"):
        MySQLBackend.from_url("mysql://db.example/shop?plaintext=no")


async def test_a_server_without_tls_is_not_spoken_to_in_clear(server: MariaDBServer) -> None:
    """The handshake fails; the password is not sent."""
    backend = MySQLBackend.from_url(server.url.replace("mysql://", "mysqls://"), unverified=True)
    with pytest.raises(BackendUnavailableError, match="SSL"):
        await backend.open(lambda call: None)


async def test_over_tls_everything_goes_on_as_in_clear(tmp_path: Path) -> None:
    """The driver begins it, and the stream is ours then: verbs, and a call to the one who waits."""
    make_certificates(tmp_path)
    files = (f"--ssl-cert={tmp_path / 'server.crt'}", f"--ssl-key={tmp_path / 'server.key'}")
    with MariaDBServer(arguments=files) as own:
        url = own.url.replace("mysql://", "mysqls://") + f"?ca={tmp_path / 'ca.crt'}"
        async with aiodlock.connect(url) as mine, aiodlock.connect(url) as other:
            async with mine.lock("wrapped") as hold:
                waiting = asyncio.create_task(other.lock("wrapped", wait=10).acquire())
                while len([row async for row in mine.inspect("wrapped")]) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            later = await waiting
            assert later.fence > hold.fence
            await later.release()
        link = await Link.open(Address.from_url(url))
        ((_, cipher),) = (await link.ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))[0]
        assert cipher
        await link.aclose()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("mysql://localhost", "names no database"),
        ("mysql://localhost/a/b", "names no database"),
        ("mysql://localhost:port/a", "cannot be used"),
        ("mysql://localhost/a?charset=x", "not supported: charset"),
        ("mysqls://localhost/a?ca=/no/such/file", "cannot be read"),
    ],
)
def test_a_bad_url_is_told_before_any_connection(url: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        MySQLBackend.from_url(url)
