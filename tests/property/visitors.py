"""Tasks that come, are inside until they are told to leave, and go: what a program of a property test is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from aiodlock import LockClient, LockError, LockLostError
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import LoopClock, settle


class Visitor:
    """One task and one hold."""

    def __init__(self, block: AbstractAsyncContextManager[Any]) -> None:
        self.hold: Any = None  # while inside
        self.refused = self.lost = False
        self._leave = asyncio.Event()
        self.task = asyncio.create_task(self._visit(block))

    @property
    def is_waiting(self) -> bool:
        return self.hold is None and not self.task.done()

    def leave(self) -> None:
        self._leave.set()

    async def _visit(self, block: AbstractAsyncContextManager[Any]) -> None:
        try:
            async with block as self.hold:
                await self._leave.wait()
        except LockLostError:
            self.lost = True
        except LockError:
            self.refused = True
        finally:
            self.hold = None


class Town:
    """One server, some clients, and all who ever came."""

    def __init__(self, server: MemoryServer, clients: list[LockClient]) -> None:
        self.server = server
        self.clients = clients
        self.visitors: list[Visitor] = []

    async def comes(self, block: AbstractAsyncContextManager[Any]) -> Visitor:
        visitor = Visitor(block)
        self.visitors.append(visitor)
        await settle()
        return visitor

    async def ends(self, visitor: Visitor, how: str, *, which: int = 0) -> None:
        """Let *visitor* go in one of three ways; one that waits can only give up. *which* of its holds is lost."""
        if how == "cancel" or visitor.is_waiting:
            visitor.task.cancel()
        elif how == "lose":
            holds = getattr(visitor.hold, "holds", (visitor.hold,))
            self.server.leave(holds[which % len(holds)]._place.ticket, None, bury=False)
        else:
            visitor.leave()
        await settle()

    @property
    def inside(self) -> set[int]:
        return {number for number, visitor in enumerate(self.visitors) if visitor.hold is not None}

    @property
    def waiting(self) -> set[int]:
        return {number for number, visitor in enumerate(self.visitors) if visitor.is_waiting}


@asynccontextmanager
async def town(clients: int = 2) -> AsyncIterator[Town]:
    """Build a town; at the end everybody leaves in turn, all get through, and nothing is left on the server."""
    clock = LoopClock()
    server = MemoryServer(clock=clock)
    opened = [LockClient(MemoryBackend(server=server), name=f"client-{n}", clock=clock) for n in range(clients)]
    for client in opened:
        await client.start()
    place = Town(server, opened)
    try:
        yield place
        await _empty(place)
    finally:
        for visitor in place.visitors:
            visitor.task.cancel()
        if place.visitors:
            _, stuck = await asyncio.wait([visitor.task for visitor in place.visitors], timeout=1_000)
            assert not stuck, "a cancel was swallowed"
        for client in opened:
            await client.aclose()
    assert server.inspect("*", "*") == []


async def _empty(place: Town) -> None:
    while pending := [visitor for visitor in place.visitors if not visitor.task.done()]:
        inside = [visitor for visitor in pending if visitor.hold is not None]
        assert inside, f"{len(pending)} wait and nobody is inside"
        for visitor in inside:
            visitor.leave()
        await asyncio.sleep(2)  # more than a third of a waiting life: who was not called looks
