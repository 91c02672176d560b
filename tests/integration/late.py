"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice, on any server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from aiodlock._core.line import Gone, GoneWhy, Inside, Ticket, Waiting
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.proxy import FaultProxy
from tests.integration.told import Told

__all__ = ["Connect", "Late", "Make"]

Connect = Callable[..., Awaitable[Told]]
Make = Callable[..., Ticket]


class Late:
    """The tests. Each folder says how its requests look on the wire."""

    verb: ClassVar[bytes]  # what every verb's request has in it
    apart: ClassVar[dict[str, Any]] = {}  # settings of a client whose late requests the server still hears

    @staticmethod
    def mark(ticket: Ticket) -> bytes:
        """Return what a request about *ticket* has in it."""
        return ticket.id.encode()

    async def overtake(self, client: Told, proxy: FaultProxy, mine: Ticket, *, bury: bool) -> None:
        """Let a join arrive at the server after the leave that gave it up."""
        held = proxy.hold_back(match=self.mark(mine))
        joining = client.backend.join(mine)
        await asyncio.to_thread(held.wait, within=5)
        proxy.cut()
        with pytest.raises(BackendUnavailableError):
            await joining
        await client.reconnected.wait()
        await client.backend.leave(mine, bury=bury)
        await asyncio.to_thread(held.deliver)

    async def lose_reply(self, client: Told, proxy: FaultProxy, verb: Callable[[], Awaitable[object]]) -> None:
        """Let the server do *verb* and its answer be lost."""
        proxy.drop_reply(match=self.verb, times=1)
        with pytest.raises(BackendUnavailableError):
            await verb()
        await client.reconnected.wait()
        client.reconnected.clear()

    async def test_a_join_that_arrives_after_its_leave_stands_nowhere(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        mine = ticket()
        await self.overtake(await connect(far, **self.apart), proxy, mine, bury=True)
        assert await client.backend.inspect(*mine.line) == []
        assert await client.backend.join(mine) == Gone(GoneWhy.BURIED, None, 1)

    async def test_without_a_tombstone_it_stays_as_an_orphan(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        """The broken twin: the leave that does not bury."""
        mine = ticket()
        await self.overtake(await connect(far, **self.apart), proxy, mine, bury=False)
        (row,) = await client.backend.inspect(*mine.line)
        assert (row.id, row.inside) == (mine.id, True)

    async def test_a_join_whose_reply_was_lost_is_found_by_the_next(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        distant = await connect(far)
        inside, waiting = ticket(), ticket()
        await self.lose_reply(distant, proxy, lambda: distant.backend.join(inside))
        await self.lose_reply(distant, proxy, lambda: distant.backend.join(waiting))
        rows = await client.backend.inspect(*inside.line)
        assert [row.id for row in rows] == [inside.id, waiting.id]
        answer = await distant.backend.join(inside)
        assert isinstance(answer, Inside)
        assert answer.epoch == rows[0].epoch
        assert isinstance(await distant.backend.join(waiting), Waiting)
        assert len(await client.backend.inspect(*inside.line)) == 2

    async def test_standing_again_whose_reply_was_lost_is_repeated_whole(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        """The old ticket has left once and the new one stands once, at the end."""
        distant = await connect(far)
        old, other, new = ticket(), ticket(), ticket()
        await distant.backend.join(old)
        await client.backend.join(other)
        await self.lose_reply(distant, proxy, lambda: distant.backend.join(new, instead_of=old.id))
        assert isinstance(await distant.backend.join(new, instead_of=old.id), Waiting)
        assert [row.id for row in await client.backend.inspect(*old.line)] == [other.id, new.id]

    async def test_a_leave_whose_reply_was_lost_lets_in_one(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        distant = await connect(far)
        holder, first, second = ticket(), ticket(), ticket()
        for mine in (holder, first, second):
            await client.backend.join(mine)
        await self.lose_reply(distant, proxy, lambda: distant.backend.leave(holder))
        await distant.backend.leave(holder)
        assert [row.inside for row in await client.backend.inspect(*holder.line)] == [True, False]

    async def test_a_latch_whose_reply_was_lost_counts_once(
        self, connect: Connect, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        distant = await connect(far)
        line = ticket().line

        def down() -> Awaitable[int]:
            counted: Awaitable[int] = distant.backend.latch(line, count=3, down=1, operation="once", ttl=5.0)
            return counted

        await self.lose_reply(distant, proxy, down)
        assert await down() == 2
