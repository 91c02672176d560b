"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiodlock._core.line import Gone, GoneWhy, Inside, Ticket, Waiting
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.proxy import FaultProxy
from tests.integration.mysql.conftest import Client

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


async def overtake(client: Client, proxy: FaultProxy, mine: Ticket, *, bury: bool) -> None:
    """Let a join arrive at the server after the leave that gave it up.

    The client must not push: one that is called ends its old connection when it comes back, and nothing arrives late.
    """
    held = proxy.hold_back(match=mine.id.encode().hex().encode())
    joining = client.backend.join(mine)
    await asyncio.to_thread(held.wait, within=5)
    proxy.cut()
    with pytest.raises(BackendUnavailableError):
        await joining
    await client.reconnected.wait()
    await client.backend.leave(mine, bury=bury)
    await asyncio.to_thread(held.deliver)


async def test_a_join_that_arrives_after_its_leave_stands_nowhere(
    connect: Connect, client: Client, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    mine = ticket()
    await overtake(await connect(far, pushes=False), proxy, mine, bury=True)
    assert await client.backend.inspect(*mine.line) == []
    assert await client.backend.join(mine) == Gone(GoneWhy.BURIED, None, 1)


async def test_without_a_tombstone_it_stays_as_an_orphan(
    connect: Connect, client: Client, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    """The broken twin: the leave that does not bury."""
    mine = ticket()
    await overtake(await connect(far, pushes=False), proxy, mine, bury=False)
    (row,) = await client.backend.inspect(*mine.line)
    assert (row.id, row.inside) == (mine.id, True)


async def test_who_comes_back_ends_his_old_connection(
    connect: Connect, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    """What is still on its way there is lost with it."""
    with pytest.raises(ConnectionError, match="ended before the late request"):
        await overtake(await connect(far), proxy, ticket(), bury=False)


async def lose_reply(client: Client, proxy: FaultProxy, verb: Callable[[], Awaitable[object]]) -> None:
    """Let the server do *verb* and its answer be lost."""
    proxy.drop_reply(match=b"CALL aiodlock_", times=1)
    with pytest.raises(BackendUnavailableError):
        await verb()
    await client.reconnected.wait()
    client.reconnected.clear()


async def test_a_join_whose_reply_was_lost_is_found_by_the_next(
    connect: Connect, client: Client, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    distant = await connect(far)
    inside, waiting = ticket(), ticket()
    await lose_reply(distant, proxy, lambda: distant.backend.join(inside))
    await lose_reply(distant, proxy, lambda: distant.backend.join(waiting))
    rows = await client.backend.inspect(*inside.line)
    assert [row.id for row in rows] == [inside.id, waiting.id]
    answer = await distant.backend.join(inside)
    assert isinstance(answer, Inside)
    assert answer.epoch == rows[0].epoch
    assert isinstance(await distant.backend.join(waiting), Waiting)
    assert len(await client.backend.inspect(*inside.line)) == 2


async def test_standing_again_whose_reply_was_lost_is_repeated_whole(
    connect: Connect, client: Client, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    """The old ticket has left once and the new one stands once, at the end."""
    distant = await connect(far)
    old, other, new = ticket(), ticket(), ticket()
    await distant.backend.join(old)
    await client.backend.join(other)
    await lose_reply(distant, proxy, lambda: distant.backend.join(new, instead_of=old.id))
    assert isinstance(await distant.backend.join(new, instead_of=old.id), Waiting)
    assert [row.id for row in await client.backend.inspect(*old.line)] == [other.id, new.id]


async def test_a_leave_whose_reply_was_lost_lets_in_one(
    connect: Connect, client: Client, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    distant = await connect(far)
    holder, first, second = ticket(), ticket(), ticket()
    for mine in (holder, first, second):
        await client.backend.join(mine)
    await lose_reply(distant, proxy, lambda: distant.backend.leave(holder))
    await distant.backend.leave(holder)
    assert [row.inside for row in await client.backend.inspect(*holder.line)] == [True, False]


async def test_a_latch_whose_reply_was_lost_counts_once(
    connect: Connect, proxy: FaultProxy, far: str, ticket: Make
) -> None:
    distant = await connect(far)
    line = ticket().line

    def down() -> Awaitable[int]:
        return distant.backend.latch(line, count=3, down=1, operation="once", ttl=5.0)

    await lose_reply(distant, proxy, down)
    assert await down() == 2
