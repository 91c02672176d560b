"""Processes on one key while connections, the server, or they themselves die: histories without a violation."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

import pytest

from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.errors import BackendError
from aiodlock.testing.history import Event, Stay, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin

Harm = Callable[[], Awaitable[object]]

WORKERS = "tests.integration.mysql.workers"


async def race(
    url: str, harm: Harm, *, visitor: str = "visit", processes: int = 3, tasks: int = 10, visits: int = 8
) -> list[Event]:
    """Let processes visit one key and do *harm* again and again until they are done; return what they recorded."""
    key = f"race-{time.monotonic_ns()}"
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                Worker(f"{WORKERS}:{visitor}", who=f"w{n}", url=url, key=key, tasks=tasks, visits=visits, ttl=2.0)
            )
            for n in range(processes)
        ]
        for worker in workers:
            await asyncio.to_thread(worker.await_event, "ready", within=30)
        while any(worker.running for worker in workers):
            await harm()
        return [event for worker in workers for event in worker.join(within=60)]


async def kill_one(admin: Admin) -> None:
    """End a connection of somebody's, as an operator or a proxy does."""
    await asyncio.sleep(0.03)
    if victims := await admin.connections():
        try:
            await admin.ask(f"KILL CONNECTION {random.choice(victims)[0]}")
        except BackendError:
            pass  # it has gone by itself


async def nothing() -> None:
    await asyncio.sleep(0.05)


def assert_sound(events: list[Event], *, at_least: int) -> list[Stay]:
    history = stays(events)
    assert len(history) >= at_least
    assert check_exclusion(history) == []
    assert check_fencing(history) == []
    return history


async def test_connections_that_are_killed_make_no_second_holder(server: MariaDBServer, admin: Admin) -> None:
    """One every 30 ms, of those for verbs and those that listen alike; everybody gets all of his visits."""
    events = await race(server.url, partial(kill_one, admin))
    assert_sound(events, at_least=3 * 10 * 8)
    assert [event.who for event in events if event.what == "closed"] == ["w0", "w1", "w2"]


async def test_a_lock_that_dies_with_its_connection_is_found(server: MariaDBServer, admin: Admin) -> None:
    """The broken twin, under the same harm."""
    events = await race(server.url, partial(kill_one, admin), visitor="visit_naively", tasks=2)
    assert check_exclusion(stays(events))


async def test_the_server_is_killed_and_comes_back() -> None:
    """Twice, under load: what was answered is still there, and nobody is inside beside another."""
    with MariaDBServer() as own:
        crashes = 0

        async def crash() -> None:
            nonlocal crashes
            await asyncio.sleep(0.3)
            if crashes < 2:
                crashes += 1
                await asyncio.to_thread(own.crash)
                await asyncio.to_thread(own.start)

        assert_sound(await race(own.url, crash, visits=40), at_least=3 * 10 * 40)
        assert crashes == 2


async def until(admin: Admin, question: str) -> None:
    """Return as soon as the server says yes."""
    async with asyncio.timeout(20):
        while not (await admin.ask(question))[0][0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("fate", ["killed", "frozen"])
async def test_the_next_one_enters_when_the_lease_of_a_dead_holder_ends(
    fate: str, server: MariaDBServer, admin: Admin
) -> None:
    """Not before it, and soon after it; a frozen holder finds itself out when it goes on."""
    key, ttl = f"{fate}-{time.monotonic_ns()}", 1.0
    first = Worker(f"{WORKERS}:hold", who="first", url=server.url, key=key, ttl=ttl)
    second = Worker(f"{WORKERS}:hold", who="second", url=server.url, key=key, ttl=ttl)
    with first, second:
        waiting = f"SELECT COUNT(*) FROM aiodlock_tickets WHERE line = 'lock:{key}' AND state = 0"
        await until(admin, waiting)
        holder, successor = (first, second) if first.events() else (second, first)
        await asyncio.to_thread(holder.await_event, "renewed", within=20, count=30)  # the lease was renewed by then
        (holder.kill if fate == "killed" else holder.pause)()
        end = max(float(event.facts["valid_until"]) for event in holder.events())  # type: ignore[arg-type]
        entered = await asyncio.to_thread(successor.await_event, "inside", within=20)
        assert entered.at >= end
        assert entered.at <= end + 1.5  # 0.2 s on an idle machine; a lease never begun again would be 1 s more each
        if fate == "frozen":
            holder.resume()
            await asyncio.to_thread(holder.await_event, "lost", within=20)
    assert_sound([*first.events(), *second.events()], at_least=2)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_four_processes_of_fifty_tasks(server: MariaDBServer) -> None:
    """Nothing goes wrong but the crowd itself."""
    events = await race(server.url, nothing, processes=4, tasks=50, visits=100)
    assert_sound(events, at_least=4 * 50 * 100)


async def test_nothing_is_left_on_the_server(server: MariaDBServer, admin: Admin) -> None:
    """After a clean end: no live ticket, no named lock, no connection."""
    link = await Link.open(Address.from_url(server.url))
    watcher = Admin(link)
    events = await race(server.url, nothing, processes=2, visits=5)
    ((now,),) = await watcher.ask("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
    assert_sound(events, at_least=2 * 10 * 5)
    tickets = await watcher.ask(
        f"SELECT line, id FROM aiodlock_tickets WHERE state IN (0, 1) AND ends > {now}"
        f" UNION ALL SELECT line, lone FROM aiodlock_lines WHERE lone <> '' AND soonest > {now}"
        f" UNION ALL SELECT line, follower FROM aiodlock_lines WHERE follower <> '' AND follower_ends > {now}"
    )
    keys = {str(event.facts["key"]).encode() for event in events if "key" in event.facts}
    assert keys
    assert [line for line, _ in tickets if any(line.endswith(key) for key in keys)] == []  # others' may be there
    began = time.monotonic()
    await until(admin, "SELECT COUNT(*) = 2 FROM information_schema.processlist WHERE db IS NOT NULL")
    assert time.monotonic() - began < 2.0  # the server does not have to find out by itself
    await link.aclose()
