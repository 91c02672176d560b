"""Cancelled at any moment of its round trips, an acquire leaves no row behind; leases are long: none ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock.backends.mysql import MySQLBackend
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin

KINDS: dict[str, Callable[[LockClient, str], aiodlock.Lock]] = {
    "lock": lambda locks, key: locks.lock(key, ttl=30),
    "fair": lambda locks, key: locks.lock(key, ttl=30, fair=True),
    "write": lambda locks, key: locks.rwlock(key, ttl=30).write(),  # type: ignore[dict-item,return-value]
    "semaphore": lambda locks, key: locks.semaphore(key, permits=1, ttl=30),  # type: ignore[dict-item,return-value]
}
MOMENTS = [step / 1000 for step in range(0, 22, 2)]  # the proxy below makes a round trip of 8 ms


async def live(admin: Admin, key: str) -> int:
    rows = await admin.ask(f"SELECT COUNT(*) FROM aiodlock_tickets WHERE line LIKE '%:{key}' AND state IN (0, 1)")
    in_line = "COUNT(NULLIF(lone, '')) + COUNT(NULLIF(follower, ''))"
    others = await admin.ask(f"SELECT {in_line} FROM aiodlock_lines WHERE line LIKE '%:{key}'")
    return int(rows[0][0] + others[0][0])


async def sweep(kind: str, server: MariaDBServer, far: str, admin: Admin) -> list[str]:
    """Cancel at every moment, the key free and taken; return where a row stayed."""
    left = []
    async with aiodlock.connect(far) as mine, aiodlock.connect(server.url) as other:
        for taken in (False, True):
            for moment in MOMENTS:
                key = f"{kind}-{taken}-{moment}"
                blocker = await KINDS[kind](other, key).acquire() if taken else None
                task = asyncio.create_task(KINDS[kind](mine, key).acquire())
                await asyncio.wait((task,), timeout=moment)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await (await task).release()
                if blocker:
                    await blocker.release()
                await mine.ping()  # behind whatever is on its way
                with suppress(TimeoutError):
                    async with asyncio.timeout(3):
                        while await live(admin, key):  # noqa: ASYNC110
                            await asyncio.sleep(0.005)
                left += [key] if await live(admin, key) else []
    return left


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "lock" else pytest.mark.long) for kind in KINDS]
)
async def test_a_cancelled_acquire_leaves_no_row(
    kind: str, server: MariaDBServer, far: str, proxy: FaultProxy, admin: Admin
) -> None:
    proxy.delay(requests=0.004, replies=0.004)
    assert await sweep(kind, server, far, admin) == []


@pytest.mark.long
async def test_a_leave_that_does_nothing_is_found(
    server: MariaDBServer, far: str, proxy: FaultProxy, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what was acquired is not given back."""

    async def nothing(self: MySQLBackend, *_: object, **__: object) -> None: ...

    monkeypatch.setattr(MySQLBackend, "leave", nothing)
    monkeypatch.setattr("tests.integration.mysql.test_cancel.MOMENTS", [0.004, 0.02])
    proxy.delay(requests=0.004, replies=0.004)
    assert await sweep("lock", server, far, admin)
