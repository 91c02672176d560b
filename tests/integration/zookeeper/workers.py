"""What processes do with a lock: enter again and again, and record what they believe."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiodlock import LockClient, LockLostError
from aiodlock._core.line import Call
from aiodlock.backends.zookeeper import ZooKeeperBackend, tree
from aiodlock.testing.history import Recorder
from tests.integration.zookeeper.support import client


async def contend(record: Recorder, *, url: str, key: str, session: float, stay: float) -> None:
    """Enter and leave until killed."""
    async with client(url, session=session, name=record.who) as locks:
        while True:
            await _enter(record, locks, key, stay)


async def contend_and_believe_calls(record: Recorder, **settings: Any) -> None:
    """Do the same, and take a call for the beginning of a waiting life, which no server keeps here."""
    push = ZooKeeperBackend._push

    def with_via(self: ZooKeeperBackend, call: Call) -> None:
        push(self, replace(call, via=self._session.via))

    ZooKeeperBackend._push = with_via  # type: ignore[method-assign]
    await contend(record, **settings)


async def contend_with_nodes_that_stay(record: Recorder, **settings: Any) -> None:
    """Do the same, with nodes that do not go with the session."""
    tree._EPHEMERAL = 0
    await contend(record, **settings)


async def queue_up(record: Recorder, *, url: str, key: str, session: float, tasks: int, stay: float) -> None:
    """Let many tasks stand in line, one after the other, each with a ticket of its own; end when all were inside."""
    async with client(url, session=session, name=record.who) as locks:
        waiting = []
        for number in range(tasks):
            waiting.append(asyncio.create_task(_enter(record, locks, key, stay, number=number, fair=True)))
            await asyncio.sleep(0.01)
        record("standing")
        await asyncio.gather(*waiting)
        record("done")


async def _enter(record: Recorder, locks: LockClient, key: str, stay: float, number: int = 0, **policy: Any) -> None:
    asked = record.now()
    with suppress(LockLostError):
        async with locks.lock(key, **policy) as hold:
            facts: dict[str, Any] = {"key": key, "id": hold.fence}
            valid = record.now() + hold.remaining
            record("inside", **facts, asked=asked, valid_until=valid, fence=hold.fence, number=number)
            until = record.now() + stay
            while record.now() < until:
                await asyncio.sleep(0.01)
                now, remaining = record.now(), hold.remaining
                if remaining > 0:  # it may have been frozen just now
                    record("renewed", **facts, valid_until=now + remaining)
            record("left", **facts)
