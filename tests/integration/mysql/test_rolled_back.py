"""What the server rolls back, because others lock our rows, goes out again; other lines go first, its own wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiodlock._core.line import Inside, LineId, Ticket
from aiodlock.backends.mysql.batch import Order
from aiodlock.backends.mysql.link import StatementError
from aiodlock.backends.mysql.node import Node
from aiodlock.backends.mysql.queries import line_name, literal, to_none
from aiodlock.errors import BackendError, BackendUnavailableError
from aiodlock.testing.servers import MariaDBServer
from tests.acceptance import acceptance
from tests.integration.mysql.conftest import Admin, Client
from tests.integration.mysql.strangers import row_of, row_of_ticket, transaction, until_waiting

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


class RolledBack:
    """What the server rolled back since this test began, in all nodes of this process."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    async def until(self, count: int) -> None:
        """Return as soon as there were *count*."""
        async with asyncio.timeout(30):
            while len(self.codes) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@pytest.fixture
def rolled_back(monkeypatch: pytest.MonkeyPatch) -> RolledBack:
    seen, put_off = RolledBack(), Node.put_off

    def counted(self: Node, left: deque[Order[Any]], kept_waiting: float, error: StatementError) -> None:
        seen.codes.append(error.code)
        put_off(self, left, kept_waiting, error)

    monkeypatch.setattr(Node, "put_off", counted)
    return seen


def elsewhere(ticket: Ticket) -> Ticket:
    """Return a ticket of another line."""
    return ticket.wishing(line=LineId("lock", f"{ticket.line.key}-elsewhere"))


async def deadlocks(admin: Admin) -> int:
    ((_, count),) = await admin.ask("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    return int(count)


@acceptance(62)
async def test_a_deadlock_is_survived(
    server: MariaDBServer, admin: Admin, client: Client, other: Client, ticket: Make
) -> None:
    """Somebody locks our rows in the other order: verbs are rolled back, repeated, and each is done once."""
    before = await deadlocks(admin)
    for _ in range(5):
        holder, waiter = ticket(), ticket()
        await client.backend.join(holder)
        await other.backend.join(waiter)
        await other.backend.renew([waiter])  # so that both have rows of their own
        async with transaction(server, row_of_ticket(waiter)) as stranger:
            leaving = asyncio.ensure_future(client.backend.leave(holder))
            await until_waiting(admin, 1)
            try:
                await stranger.ask(row_of(holder.line))  # whoever of the two is rolled back
            except BackendError:
                pass
            await stranger.ask("ROLLBACK")
            await leaving
        assert isinstance(await other.backend.join(waiter), Inside)
        await other.backend.leave(waiter)
    assert await deadlocks(admin) > before


# --- a row that somebody does not let go -------------------------------------------------------------------


async def test_a_lock_wait_that_times_out_is_repeated(
    server: MariaDBServer, client: Client, ticket: Make, rolled_back: RolledBack
) -> None:
    """Error 1205: nothing has happened, and when the row is free the same verb is done, on the same connection."""
    before, mine = ticket(), ticket()
    await client.backend.join(before)
    async with transaction(server, row_of(mine.line)) as stranger:
        leaving = asyncio.ensure_future(client.backend.leave(before))
        await rolled_back.until(1)
        await stranger.ask("ROLLBACK")
        await leaving
    assert set(rolled_back.codes) == {1205}
    assert isinstance(await client.backend.join(mine), Inside)
    assert client.backend._node.via == 1


async def test_a_row_that_stays_locked_is_reported(
    server: MariaDBServer, connect: Connect, ticket: Make, rolled_back: RolledBack
) -> None:
    """After our patience the caller is told why; the engine goes on asking, and the connection is well."""
    client, mine = await connect(patience=2.0), ticket()
    await client.backend.join(mine)
    async with transaction(server, row_of(mine.line)):
        with pytest.raises(BackendUnavailableError, match=r"rolled back for 2s.*Lock wait timeout"):
            await client.backend.leave(mine)
    assert len(rolled_back.codes) > 1
    await client.backend.leave(mine)
    assert await client.backend.inspect(*mine.line) == []
    assert client.backend._node.via == 1


async def renew_beside_a_stuck_row(server: MariaDBServer, client: Client, ticket: Make, seen: RolledBack) -> int:
    """Keep a ticket alive while somebody locks the row of another line; return how often that line's verb was tried."""
    stuck, mine = ticket(), elsewhere(ticket())
    for one in (stuck, mine):
        await client.backend.join(one)
    async with transaction(server, row_of(stuck.line)) as stranger:
        leaving = asyncio.ensure_future(client.backend.leave(stuck))
        renewing = asyncio.ensure_future(client.backend.renew([mine]))
        tried_twice = asyncio.create_task(seen.until(2))
        await asyncio.wait((renewing, tried_twice), return_when=asyncio.FIRST_COMPLETED)
        tried_twice.cancel()
        tries = len(seen.codes)
        await stranger.ask("ROLLBACK")
        await leaving
    assert isinstance((await renewing)[0], Inside)
    return tries


async def test_a_stuck_row_costs_the_other_lines_one_try(
    server: MariaDBServer, client: Client, ticket: Make, rolled_back: RolledBack
) -> None:
    """Their verbs go out before it is tried again: nobody loses a hold because somebody else's line is stuck."""
    assert await renew_beside_a_stuck_row(server, client, ticket, rolled_back) == 1


async def test_trying_again_before_all_others_would_keep_them_waiting(
    server: MariaDBServer, client: Client, ticket: Make, rolled_back: RolledBack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(Node, "put_off", lambda self, left, kept_waiting, error: rolled_back.codes.append(error.code))
    assert await renew_beside_a_stuck_row(server, client, ticket, rolled_back) == 2


async def join_and_leave_behind_a_stuck_row(
    server: MariaDBServer, client: Client, other: Client, ticket: Make, seen: RolledBack
) -> list[str]:
    """Send a join and its leave while the row is locked, which is let go after the join was rolled back."""
    holder, mine = ticket(), ticket()
    await other.backend.join(holder)
    async with transaction(server, row_of(mine.line)) as stranger:
        both = asyncio.gather(client.backend.join(mine), client.backend.leave(mine))
        await seen.until(1)
        await stranger.ask("ROLLBACK")
        await both
    return [row.id for row in await other.backend.inspect(*mine.line) if row.id != holder.id]


async def test_a_leave_does_not_overtake_a_join_that_was_rolled_back(
    server: MariaDBServer, client: Client, other: Client, ticket: Make, rolled_back: RolledBack
) -> None:
    """Verbs of one line stay in their order."""
    assert await join_and_leave_behind_a_stuck_row(server, client, other, ticket, rolled_back) == []


async def test_without_lanes_it_would(
    server: MariaDBServer,
    client: Client,
    other: Client,
    ticket: Make,
    rolled_back: RolledBack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin."""
    send = Node.send

    def without(self: Node, *arguments: Any, lane: object = None, **settings: Any) -> Any:
        return send(self, *arguments, **settings)

    monkeypatch.setattr(Node, "send", without)
    assert len(await join_and_leave_behind_a_stuck_row(server, client, other, ticket, rolled_back)) == 1


async def test_what_rests_fails_with_the_connection(
    server: MariaDBServer, client: Client, ticket: Make, rolled_back: RolledBack
) -> None:
    """Nobody waits for ever, and nothing is sent later over another connection."""
    mine = ticket()
    await client.backend.join(mine)
    async with transaction(server, row_of(mine.line)):
        leaving = asyncio.ensure_future(client.backend.leave(mine))
        await rolled_back.until(1)
        assert client.backend._node._link
        client.backend._node._link.abort("cut")
        with pytest.raises(BackendUnavailableError, match="cut"):
            await leaving
    await client.reconnected.wait()
    assert [row.id for row in await client.backend.inspect(*mine.line)] == [mine.id]


async def test_a_slow_server_that_answers_is_not_silent(connect: Connect) -> None:
    """Patience is counted from the last answer, not from the packet in which many were asked for."""
    client = await connect(patience=2.0)
    slow = [client.backend._node.send("DO SLEEP(0.2)", to_none, results=1) for _ in range(12)]
    await asyncio.gather(*slow)
    assert client.backend._node.via == 1


# --- a storm of deadlocks ----------------------------------------------------------------------------------

ENOUGH = 50


async def weather_a_storm(
    server: MariaDBServer, admin: Admin, clients: list[Client], ticket: Make, seen: RolledBack
) -> None:
    """Let clients come and go in one line, while others lock its rows in the other order, until enough was undone."""
    line = ticket().line
    await admin.ask("CREATE OR REPLACE TABLE ballast (who INT, n INT, PRIMARY KEY (who, n)) ENGINE = InnoDB")

    async def stranger(who: int) -> None:
        heavy = ", ".join(f"({who}, {n})" for n in range(100))  # the lighter one is rolled back: that shall be ours
        tickets = f"SELECT * FROM aiodlock_tickets WHERE line = {literal(line_name(line))} FOR UPDATE"
        async with transaction(server) as its:
            while True:
                try:
                    for statement in (f"INSERT INTO ballast VALUES {heavy}", tickets, row_of(line)):
                        await its.ask(statement)
                except BackendError:
                    pass  # it was lighter after all
                await its.ask("ROLLBACK")
                await asyncio.sleep(0.005)  # others come in, and most meet it half way
                await its.ask("START TRANSACTION")

    async def visit(client: Client) -> None:
        while len(seen.codes) < ENOUGH:
            mine = ticket()
            await client.backend.join(mine)
            await client.backend.renew([mine])
            await client.backend.leave(mine)

    strangers = [asyncio.create_task(stranger(who)) for who in range(2)]
    try:
        async with asyncio.timeout(40):
            await asyncio.gather(*(visit(client) for client in clients for _ in range(4)))
    finally:
        for one in strangers:
            one.cancel()
        await asyncio.wait(strangers)
    assert await clients[0].backend.inspect(*line) == []


async def test_a_storm_of_deadlocks_is_weathered(
    server: MariaDBServer, admin: Admin, connect: Connect, ticket: Make, rolled_back: RolledBack
) -> None:
    """Every verb is done once, none is refused, and nobody is left in the line."""
    clients = [await connect(patience=30.0), await connect(patience=30.0)]
    await weather_a_storm(server, admin, clients, ticket, rolled_back)
    assert 1213 in rolled_back.codes


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_without_repeating_it_is_not(
    server: MariaDBServer,
    admin: Admin,
    client: Client,
    other: Client,
    ticket: Make,
    rolled_back: RolledBack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin."""
    monkeypatch.setattr(StatementError, "is_passing", False)
    with pytest.raises(StatementError):
        await weather_a_storm(server, admin, [client, other], ticket, rolled_back)
