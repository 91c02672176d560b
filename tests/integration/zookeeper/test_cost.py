"""What it costs the server: nothing while idle, nothing per section inside a client, one connection."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from aiodlock.backends.zookeeper.lookout import Lookout
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperServer
from tests.conformance.worlds import asks_for, opcodes
from tests.integration.zookeeper.support import client, figure, give_up, in_line, is_parked, until, url_of

CREATE, LIST, SYNC, PING, CONTAINER = 15, 8, 9, 11, 19  # opcodes


async def test_idle_waiters_cost_a_sync_per_third_of_a_session(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """And pings; whoever waits on whatever, over one connection."""
    session, seconds = 4.0, 4.0
    async with client(url_of(proxy.port), session=session) as waiter, client(server.url, session=30.0) as holder:
        both = holder.multi(holder.lock(key), holder.lock(f"{key}-2"))
        async with both, AsyncExitStack() as stack:
            tasks = [asyncio.create_task(waiter.lock(key).acquire()) for _ in range(100)]
            tasks += [asyncio.create_task(waiter.lock(f"{key}-2", fair=True).acquire()) for _ in range(20)]
            stack.push_async_callback(give_up, tasks)
            await in_line(holder, f"{key}-2", 21)
            await until(lambda: is_parked(waiter))
            sent = Counter[int]()
            proxy.drop_request(match=lambda chunk: sent.update(opcodes(chunk)))
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(seconds)
            took = asyncio.get_running_loop().time() - began
            figure(f"120 idle waiters: {sent[SYNC]} syncs, {sent[PING]} pings in {took:g}s, a session of {session:g}s")
            assert set(sent) <= {SYNC, PING}
            assert 1 <= sent[SYNC] <= took / (session / 3) + 1
            assert sent[PING] <= took / (session / 12) + 1  # every sixth, found out by a timer that is twice as fast
            assert proxy.counts.connections == 1


async def test_a_hundred_tasks_cost_a_tenth_of_a_call_per_section(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """Of one client, alone with the key."""

    async def visit() -> None:
        for _ in range(20):
            async with mine.lock(key):
                await asyncio.sleep(0)

    async with client(url_of(proxy.port), session=30.0) as mine:
        requests = list[int]()
        proxy.drop_request(match=lambda chunk: requests.extend(opcodes(chunk)))
        await asyncio.gather(*(visit() for _ in range(100)))
        sent = len(requests)
        figure(f"{sent} requests for 2000 sections of 100 tasks")
        assert sent <= 0.1 * 2000


async def test_a_free_lock_costs_one_round_trip(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """The node is made and the line listed by requests that go out together."""
    async with client(url_of(proxy.port), session=30.0) as mine, client(server.url) as other:
        async with other.lock(key):
            pass  # the line is there now
        held = proxy.hold_back(match=asks_for("join"))
        acquiring = asyncio.create_task(mine.lock(key).acquire())
        sent = await asyncio.to_thread(held.wait, within=5.0)
        assert list(opcodes(sent)) == [CREATE, LIST]
        await asyncio.to_thread(held.deliver)
        await (await acquiring).release()


async def test_a_missing_line_is_made_in_the_same_round_trip(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """After one that was missing; and no longer after one that was there."""

    async def sent_by_entering(line: str) -> list[list[int]]:
        sent = list[list[int]]()
        proxy.drop_request(match=lambda chunk: sent.append(list(opcodes(chunk))))
        async with mine.rwlock(line).read():
            return [asked for asked in sent if CREATE in asked]

    async with (
        client(url_of(proxy.port), session=30.0) as mine,
        client(server.url) as other,
        other.rwlock(key).read(),  # and what is above all lines is there now
    ):
        assert await sent_by_entering(f"{key}-1") == [[CREATE, LIST], [CONTAINER, CREATE, LIST]]
        assert await sent_by_entering(f"{key}-2") == [[CONTAINER, CREATE, LIST]]
        assert await sent_by_entering(key) == [[CONTAINER, CREATE, LIST]]
        assert await sent_by_entering(key) == [[CREATE, LIST]]


async def _enter_while_nothing_is_heard_of_the_waiter(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    async with client(url_of(proxy.port), session=30.0) as waiter, client(server.url) as holder:
        hold = await holder.lock(key).acquire()
        entering = asyncio.create_task(waiter.lock(key).acquire())
        await in_line(holder, key, 2)
        await until(lambda: is_parked(waiter))
        proxy.half_open(replies=False)
        await hold.release()
        try:
            async with asyncio.timeout(2.0):
                own = await entering
        finally:
            proxy.heal()
        await own.release()


async def test_a_wake_up_costs_no_round_trip(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """Who is next knows it from the deletion that it is told of: it enters while nothing it sends arrives."""
    await _enter_while_nothing_is_heard_of_the_waiter(server, proxy, key)


async def test_that_finds_a_waiter_that_asks_first(
    server: ZooKeeperServer, proxy: FaultProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be a round trip later."""
    monkeypatch.setattr(Lookout, "is_front", property(lambda self: False))
    with pytest.raises(TimeoutError):
        await _enter_while_nothing_is_heard_of_the_waiter(server, proxy, key)
