"""What locks in a database are asked for in other worlds: expiry by one of many, one clock, no tie to a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncmy

import aiodlock
from aiodlock._core.line import Inside, Ticket, Waiting
from aiodlock.testing.servers import MariaDBServer
from tests.acceptance import acceptance
from tests.integration.mysql.conftest import Admin, Client

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


@acceptance(60)
async def test_an_expired_row_is_taken_by_one_of_many(connect: Connect, ticket: Make) -> None:
    """All of them come at the same moment, over connections of their own."""
    clients = [await connect(pushes=False) for _ in range(6)]
    dead = ticket(ttl=0.05)
    await clients[0].backend.join(dead)
    while await clients[0].backend.inspect(*dead.line):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    answers = await asyncio.gather(*(client.backend.join(ticket()) for client in clients))
    assert sorted(type(answer).__name__ for answer in answers) == ["Inside", *["Waiting"] * 5]


@acceptance(61)
async def test_only_the_databases_clock_counts(connect: Connect, ticket: Make, admin: Admin) -> None:
    """A session in another time zone sees the same lives."""
    client, other = await connect(), await connect()
    assert other.backend._node._link
    await other.backend._node._link.ask("SET SESSION time_zone = '-11:00'")
    mine, waiter = ticket(ttl=20), ticket()
    inside = await client.backend.join(mine)
    waiting = await other.backend.join(waiter)
    (again,) = await other.backend.renew([mine])
    assert isinstance(inside, Inside)
    assert isinstance(waiting, Waiting)
    assert isinstance(again, Inside)
    assert again.epoch == inside.epoch
    assert 19 < waiting.look_again <= 20
    assert 19 < again.remaining <= 20


@acceptance(63)
async def test_a_lock_taken_during_a_transaction_is_not_tied_to_it(server: MariaDBServer, admin: Admin) -> None:
    """The caller's roll-back changes nothing: the lock has connections of its own, and stays until it is released."""
    connection = await asyncmy.connect(host="127.0.0.1", port=server.port, user="root", database=server.database)
    async with aiodlock.connect(server.url) as locks, aiodlock.connect(server.url) as other:
        await connection.begin()
        hold = await locks.lock("tied").acquire()
        await connection.rollback()
        connection.close()
        assert await other.lock("tied").try_acquire() is None
        await hold.release()
        async with other.lock("tied", wait=5):
            pass
