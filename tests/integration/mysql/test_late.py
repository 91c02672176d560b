"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from aiodlock._core.line import Inside, Ticket, Waiting
from aiodlock.testing.proxy import FaultProxy
from tests.integration.late import Connect, Late, Make
from tests.integration.told import Told


class TestLate(Late):
    verb = b"CALL aiodlock_"
    # One that is called ends its old connection when it comes back, and nothing arrives late.
    apart: ClassVar[dict[str, Any]] = {"pushes": False}

    @staticmethod
    def mark(ticket: Ticket) -> bytes:
        return ticket.id.encode().hex().encode()

    async def test_who_comes_back_ends_his_old_connection(
        self, connect: Connect, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        """What is still on its way there is lost with it."""
        with pytest.raises(ConnectionError, match="ended before the late request"):
            await self.overtake(await connect(far), proxy, ticket(), bury=False)


class TestLateShortcuts(TestLate):
    """Where a join or a leave is one plain statement, which changed one row before its answer was lost."""

    verb = b"\x00\x01\x00\x00\x00\x00\x01"  # of what the server keeps: no cursor, once, nothing is NULL, kinds follow

    async def find_free(self, client: Told, ticket: Make) -> None:
        """Let *client* know the line, so that it goes by a shortcut."""
        mine = ticket()
        await client.backend.join(mine)
        await client.backend.leave(mine)

    async def test_a_join_whose_reply_was_lost_is_found_by_the_next(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        distant, mine = await connect(far), ticket()
        await self.find_free(distant, ticket)
        await self.lose_reply(distant, proxy, lambda: distant.backend.join(mine))
        (row,) = await client.backend.inspect(*mine.line)
        answer = await distant.backend.join(mine)
        assert isinstance(answer, Inside)
        assert (row.id, row.epoch) == (mine.id, answer.epoch)

    async def test_asking_with_a_new_id_would_wait_behind_itself(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        """The broken twin: an id that is not chosen before the first send."""
        distant = await connect(far)
        await self.find_free(distant, ticket)
        await self.lose_reply(distant, proxy, lambda: distant.backend.join(ticket()))
        assert isinstance(await distant.backend.join(ticket()), Waiting)

    async def test_a_leave_whose_reply_was_lost_lets_in_one(
        self, connect: Connect, client: Told, proxy: FaultProxy, far: str, ticket: Make
    ) -> None:
        """It has left once; left again, it does not make the next one leave."""
        distant, mine, later = await connect(far), ticket(), ticket()
        await self.find_free(distant, ticket)
        await distant.backend.join(mine)
        await self.lose_reply(distant, proxy, lambda: distant.backend.leave(mine))
        assert isinstance(await client.backend.join(later), Inside)
        await distant.backend.leave(mine)
        assert [row.id for row in await client.backend.inspect(*mine.line)] == [later.id]

    # What is never one plain statement is tested above.
    test_standing_again_whose_reply_was_lost_is_repeated_whole = None  # type: ignore[assignment]
    test_a_latch_whose_reply_was_lost_counts_once = None  # type: ignore[assignment]
