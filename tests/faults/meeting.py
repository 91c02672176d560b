"""Two clients of one server that meet at a key while one of them has trouble with its network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiodlock import LockClient
from aiodlock.testing.history import Event, Recorder
from aiodlock.testing.proxy import FaultProxy
from tests.faults.crew import judge
from tests.faults.visits import kept_by, visit

__all__ = ["meet"]

_PAUSE = 10.0  # longer than any before a leave that had no answer is sent again


async def meet(
    far: LockClient,
    near: LockClient,
    kind: str,
    key: str,
    *,
    ttl: float,
    visits: int,
    within: float,
    proxies: Iterable[FaultProxy],
) -> None:
    """Have two tasks of the far client enter so many times each, and two of the near one as long as they do.

    Their tickets then join, wait, are called, renewed, replaced and left. At the end the *proxies* are healed. Fail if
    anything is wrong with what was seen, or a client keeps something.
    """

    async def enter(locks: LockClient) -> None:
        await visit(Recorder(events.append, who=locks.name), locks, kind, key, ttl=ttl, stay=0.004)

    async def enter_some() -> None:
        for _ in range(visits):
            await enter(far)

    async def enter_meanwhile() -> None:
        while not done.is_set():
            await enter(near)

    events: list[Event] = []
    done = asyncio.Event()
    others = [asyncio.create_task(enter_meanwhile()) for _ in range(2)]
    try:
        async with asyncio.timeout(within):
            await asyncio.gather(enter_some(), enter_some())
    finally:
        done.set()
        await asyncio.wait(others, timeout=1)
        for task in others:
            task.cancel()
        for proxy in proxies:
            proxy.heal()
    kept = [fault for locks in (far, near) for fault in await kept_by(locks, within=_PAUSE)]
    wrong = [*kept, *judge(events, kind=kind)]
    assert not wrong, wrong
    assert sum(event.what == "inside" and event.who == "far" for event in events) == 2 * visits
