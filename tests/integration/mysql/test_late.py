"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from aiodlock._core.line import Ticket
from aiodlock.testing.proxy import FaultProxy
from tests.integration.late import Connect, Late, Make


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
