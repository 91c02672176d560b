"""Locks as they are often written, over the same verbs: the sweep must find what is wrong with them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from types import TracebackType
from typing import Any

from aiodlock._core.line import Inside, LineId, Ticket, TicketId
from aiodlock.client import LockClient
from tests.cancellation.kinds import KEY
from tests.cancellation.wire import TRIP

__all__ = ["HastyLock", "NaiveLock", "ShieldingLock", "StubbornLock"]

_ids = itertools.count(1)


class NaiveLock:
    """Waits for its verbs where it stands: a cancel tears them."""

    def __init__(self, client: LockClient, **_: Any) -> None:
        self._backend = client.backend
        self._ticket = Ticket.of(LineId("lock", KEY), TicketId(f"twin-{next(_ids)}"), ttl=20.0, owner="ours")

    async def __aenter__(self) -> None:
        while not isinstance(await self._join(), Inside):  # noqa: ASYNC110, no better than it is meant to be
            await asyncio.sleep(TRIP)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _join(self) -> Any:
        return await self._backend.join(self._ticket, queue=False)

    async def _leave(self) -> None:
        await self._backend.leave(self._ticket)


class ShieldingLock(NaiveLock):
    """Lets its verbs go on in the background, and gives back what it may have got; nobody waits for that."""

    async def __aenter__(self) -> None:
        try:
            await super().__aenter__()
        except asyncio.CancelledError:
            await self._leave()
            raise

    async def _join(self) -> Any:
        return await _shielded(self._backend.join(self._ticket, queue=False))

    async def _leave(self) -> None:
        await _shielded(self._backend.leave(self._ticket))


class StubbornLock(ShieldingLock):
    """Finishes its clean-up whatever comes, and forgets what came."""

    async def _leave(self) -> None:
        leaving = asyncio.ensure_future(self._backend.leave(self._ticket))
        while not leaving.done():
            try:
                await asyncio.shield(leaving)
            except asyncio.CancelledError:
                continue


class HastyLock(ShieldingLock):
    """Limits its verbs by `wait_for`, which loses a cancel on Python 3.11 that comes together with the answer."""

    async def _join(self) -> Any:
        return await asyncio.wait_for(self._backend.join(self._ticket, queue=False), 1.0)


def _shielded(verb: Awaitable[Any]) -> Awaitable[Any]:
    work = asyncio.ensure_future(verb)
    work.add_done_callback(lambda done: done.cancelled() or done.exception())  # so that asyncio does not complain
    return asyncio.shield(work)
