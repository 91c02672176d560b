"""Processes on one key while connections, the server, or they themselves die: histories without a violation."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest

from aiodlock.backends.mysql import MySQLBackend
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


class Killer:
    """Ends a connection of somebody's every 30 ms, as an operator or a proxy does."""

    def __init__(self, admin: Admin) -> None:
        self.kills = 0
        self._admin = admin

    async def __call__(self) -> None:
        await asyncio.sleep(0.03)
        if victims := await self._admin.connections():
            try:
                await self._admin.ask(f"KILL CONNECTION {random.choice(victims)[0]}")
                self.kills += 1
            except BackendError:
                pass  # it has gone by itself


@asynccontextmanager
async def opened(server: MariaDBServer) -> AsyncIterator[Admin]:
    link = await Link.open(Address.from_url(server.url))
    try:
        yield Admin(link)
    finally:
        await link.aclose()


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
    kill_one = Killer(admin)
    while kill_one.kills < 10:  # a race may be over before that
        events = await race(server.url, kill_one, visits=16)
        assert_sound(events, at_least=3 * 10 * 16)
        assert [event.who for event in events if event.what == "closed"] == ["w0", "w1", "w2"]


async def test_a_lock_that_dies_with_its_connection_is_found(server: MariaDBServer, admin: Admin) -> None:
    """The broken twin, under the same harm."""
    events = await race(server.url, Killer(admin), visitor="visit_naively", tasks=2)
    assert check_exclusion(stays(events))


async def test_the_server_is_killed_and_comes_back() -> None:
    """Twice, under load: what was answered is still there, and nobody is inside beside another."""
    with MariaDBServer() as own:
        crashes = 0

        async def crash() -> None:
            nonlocal crashes
            await asyncio.sleep(0.1)  # all visits together take longer than two of these
            if crashes < 2:
                crashes += 1
                await asyncio.to_thread(own.crash)
                await asyncio.to_thread(own.start)

        assert_sound(await race(own.url, crash, visits=40), at_least=3 * 10 * 40)
        assert crashes == 2


async def crash_under_a_holder(own: MariaDBServer, *, forget: bool = False) -> tuple[Worker, Worker]:
    """Crash the server while one holds and one waits; return when the holder has renewed, or with *forget* gone."""
    await MySQLBackend.from_url(own.url).prepare()
    first, second = (Worker(f"{WORKERS}:hold", who=who, url=own.url, key="held", ttl=15.0) for who in ("a", "b"))
    with first, second:
        async with opened(own) as admin:
            await until(admin, "SELECT COUNT(*) FROM aiodlock_lines WHERE line = 'lock:held' AND waiting = 1")
        holder, waiter = (first, second) if any(e.what == "inside" for e in first.events()) else (second, first)
        await asyncio.to_thread(own.crash)
        await asyncio.to_thread(own.start)
        async with opened(own) as admin:
            if forget:
                await admin.ask("DELETE FROM aiodlock_lines")
                await admin.ask("DELETE FROM aiodlock_tickets")
                await asyncio.to_thread(waiter.await_event, "inside", within=30)
            else:
                ((before,),) = await admin.ask(END)
                await until(admin, f"SELECT ({END}) > {before}")
    return holder, waiter


END = (
    "SELECT COALESCE((SELECT MAX(ends) FROM aiodlock_tickets WHERE line = 'lock:held' AND state = 1), "
    "(SELECT soonest FROM aiodlock_lines WHERE line = 'lock:held'))"
)


async def test_a_hold_outlives_a_crash_of_the_server() -> None:
    """It is renewed there afterwards, and whoever waits goes on waiting."""
    with MariaDBServer() as own:
        holder, waiter = await crash_under_a_holder(own)
    assert not [event for event in waiter.events() if event.what == "inside"]
    assert not [event for event in holder.events() if event.what == "lost"]


async def test_a_server_that_forgets_in_a_crash_is_found() -> None:
    """The broken twin."""
    with MariaDBServer() as own:
        holder, waiter = await crash_under_a_holder(own, forget=True)
    assert check_exclusion(stays([*holder.events(), *waiter.events()]))


async def until(admin: Admin, question: str) -> None:
    """Return as soon as the server says yes."""
    async with asyncio.timeout(20):
        while not (await admin.ask(question))[0][0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def die_and_be_followed(
    fate: str, url: str, admin: Admin, *, too_early: bool = False
) -> tuple[float, list[Event]]:
    """Let a holder die while another one waits; return how long after the end of its lease that one entered."""
    key, ttl = f"{fate}-{time.monotonic_ns()}", 3.0
    first = Worker(f"{WORKERS}:hold", who="first", url=url, key=key, ttl=ttl)
    second = Worker(f"{WORKERS}:hold", who="second", url=url, key=key, ttl=ttl)
    with first, second:
        waiting = f"SELECT COUNT(*) FROM aiodlock_tickets WHERE line = 'lock:{key}' AND state = 0"
        await until(admin, waiting)
        holder, successor = (first, second) if first.events() else (second, first)
        await asyncio.to_thread(holder.await_event, "renewed", within=20, count=30)  # the lease was renewed by then
        (holder.kill if fate == "killed" else holder.pause)()
        if too_early:
            await admin.ask(f"UPDATE aiodlock_tickets SET ends = 1 WHERE line = 'lock:{key}' AND state = 1")
            await admin.ask(f"UPDATE aiodlock_lines SET soonest = 1 WHERE line = 'lock:{key}'")
        end = max(float(event.facts["valid_until"]) for event in holder.events())  # type: ignore[arg-type]
        entered = await asyncio.to_thread(successor.await_event, "inside", within=20)
        if fate == "frozen":
            holder.resume()
            await asyncio.to_thread(holder.await_event, "lost", within=20)
    return entered.at - end, [*first.events(), *second.events()]


@pytest.mark.parametrize("fate", ["killed", "frozen"])
async def test_the_next_one_enters_when_the_lease_of_a_dead_holder_ends(
    fate: str, server: MariaDBServer, admin: Admin
) -> None:
    """Not before it, and soon after it; a frozen holder finds itself out when it goes on."""
    late, events = await die_and_be_followed(fate, server.url, admin)
    assert 0 <= late <= 2.5  # 0.2 s on an idle machine; a lease begun again would be 3 s more
    assert_sound(events, at_least=2)


async def test_a_lease_that_ends_too_early_is_found(server: MariaDBServer, admin: Admin) -> None:
    """The broken twin: the next one enters while the frozen one may still believe to be inside."""
    late, events = await die_and_be_followed("killed", server.url, admin, too_early=True)
    assert late < 0
    assert check_exclusion(stays(events))


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
    # The server does not have to find out by itself, which takes hours.
    await until(admin, "SELECT COUNT(*) = 2 FROM information_schema.processlist WHERE db IS NOT NULL")
    await link.aclose()
