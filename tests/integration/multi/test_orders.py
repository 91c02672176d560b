"""Whoever takes the same members on several backends in opposite orders does not wait for the other for ever."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from aiodlock.errors import AcquireTimeoutError
from aiodlock.testing.history import Event, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from tests.integration.multi.backends import Clients, opened
from tests.integration.multi.workers import as_asked

LONG, SHORT = 30.0, 1.5  # seconds to wait: more than everybody needs; until a deadlock is taken for one


async def meet(one: Clients, two: Clients, keys: dict[str, str], *, visits: int, wait: float) -> list[int]:
    """Send tasks of both through all of *keys*, each in an order of its own; return who was alone inside, each time."""
    inside, alone, chance = 0, list[int](), Random(4)

    async def visit(clients: Clients) -> None:
        nonlocal inside
        for _ in range(visits):
            names = chance.sample(sorted(keys), len(keys))
            async with await clients.multi(keys, order=names).acquire(wait):
                inside += 1
                await asyncio.sleep(chance.random() * 0.005)
                alone.append(inside)
                inside -= 1

    done = await asyncio.gather(*(visit(clients) for clients in (one, two) for _ in range(3)), return_exceptions=True)
    for error in done:
        if isinstance(error, BaseException):
            raise error
    return alone


async def test_tasks_with_opposite_orders_get_through(direct: dict[str, str], keys: dict[str, str]) -> None:
    """Of two clients of each of four backends; one key, so that only the backend orders the members."""
    async with opened(direct, "one") as one, opened(direct, "two") as two:
        assert await meet(one, two, keys, visits=5, wait=LONG) == [1] * 30
        await one.until_empty(keys)


async def test_members_taken_as_asked_are_found(direct: dict[str, str], keys: dict[str, str]) -> None:
    """The broken twin: sooner or later each has what the other waits for."""
    async with opened(direct, "one") as one, opened(direct, "two") as two:
        with as_asked(), pytest.raises(AcquireTimeoutError):
            await meet(one, two, keys, visits=20, wait=SHORT)
        await one.until_empty(keys)


def contend(direct: dict[str, str], key: str, start: Path, *, visits: int, wait: float, twin: bool) -> list[Event]:
    """Have two processes take the same members in opposite orders; return what both recorded."""
    urls = {name: url for name, url in direct.items() if name != "memory"}  # which is each process's own
    facts = {"urls": urls, "key": key, "start": str(start), "visits": visits, "wait": wait, "twin": twin}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker("tests.integration.multi.workers:visit", who=order[0], order=order, **facts))  # type: ignore[arg-type]
            for order in (sorted(urls), sorted(urls, reverse=True))
        ]
        for worker in workers:
            worker.await_event("connected", within=30.0)
        start.touch()
        return [event for worker in workers for event in worker.join(within=60.0)]


def test_processes_with_opposite_orders_get_through(
    direct: dict[str, str], keys: dict[str, str], tmp_path: Path
) -> None:
    """All visits of both, one at a time on every backend."""
    events = contend(direct, keys["redis"], tmp_path / "start", visits=40, wait=LONG, twin=False)
    history = stays(events)
    assert [event for event in events if event.what == "stuck"] == []
    assert len(history) == 2 * 40 * 3
    assert [*check_exclusion(history), *check_fencing(history)] == []


def test_processes_that_take_members_as_asked_are_found(
    direct: dict[str, str], keys: dict[str, str], tmp_path: Path
) -> None:
    """The broken twin."""
    events = contend(direct, keys["redis"], tmp_path / "start", visits=200, wait=SHORT, twin=True)
    assert [event for event in events if event.what == "stuck"]
