"""The server itself: killed and restarted with and without its data, frozen past the lease, out of memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import aiodlock
from aiodlock.errors import BackendUnavailableError, LockLostError
from aiodlock.testing.history import check_exclusion, check_fencing, stays
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
from tests.faults.crew import Crew, judge, naively
from tests.faults.redis.admin import ask, in_line, left_on
from tests.faults.redis.clients import through
from tests.faults.twins import TWINS
from tests.faults.visits import KINDS, until_in_line
from tests.fuzz.twins import broken

Start = Callable[..., RedisServer]

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("kind", ["lock", pytest.param("rwlock", marks=pytest.mark.long)])
def test_a_server_that_keeps_its_data_may_be_killed_under_load(own_server: Start, kind: str) -> None:
    """Everybody goes on, nobody beside a holder; nothing is left."""
    server = own_server(durable=True)
    with Crew("contend", [server.url] * 3, kind=kind, tasks=2, ttl=10.0) as crew:
        for _ in range(3):
            crew.await_more(5)
            server.crash()
            server.start()
        crew.await_more(5)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert not [event for event in events if event.what.endswith("Error")]
    assert asyncio.run(left_on(server, crew.key)) == []


@pytest.mark.long
def test_a_server_that_forgets_its_data_under_load_keeps_fences_in_order(own_server: Start) -> None:
    """Two may be inside until those who were have heard of it; everybody goes on, and nothing is left."""
    server = own_server()
    with Crew("contend", [server.url] * 3, kind="lock", tasks=2, ttl=2.0) as crew:
        for _ in range(5):
            crew.await_more(5)
            server.crash()
            server.start()
        crew.await_more(5)
        events = crew.finish()
    assert check_fencing(stays(events)) == []
    assert asyncio.run(left_on(server, crew.key)) == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_restart_under_a_holder_that_is_cut_off(own_server: Start, durable: bool) -> None:
    """Expected violation: without its data the server lets another one in. The fence is in order all the same.

    With its data, the next one enters when the lease is over.
    """
    server = own_server(durable=durable)
    ttl = 3.0 if durable else 20.0  # to be waited for, or long enough for the restart
    with FaultProxy(server.port) as proxy, Crew("hold", [through(proxy)], ttl=ttl) as crew:
        crew.workers[0].await_event("inside", within=30)
        crew.join(server.url)
        asyncio.run(in_line(server, crew.key, 2))
        proxy.refuse()
        server.crash()
        server.start()
        crew.workers[1].await_event("inside", within=30)
        crew.workers[0].kill()
        history = stays(crew.finish())
    assert [stay.who for stay in history] == ["worker-0", "worker-1"]
    assert [violation.rule for violation in check_exclusion(history)] == ([] if durable else ["exclusion"])
    assert check_fencing(history) == []
    assert asyncio.run(left_on(server, crew.key)) == []


def test_a_server_that_is_frozen_past_the_lease(own_server: Start) -> None:
    """The holder loses its lock by its own clock, before the server wakes up and lets the next one in."""
    server = own_server()
    with Crew("hold", [server.url], ttl=3.0) as crew:
        crew.workers[0].await_event("inside", within=30)
        crew.join(server.url)
        asyncio.run(in_line(server, crew.key, 2))
        with server.paused():
            crew.workers[0].await_event("lost", within=30)
        crew.workers[1].await_event("inside", within=30)
        events = crew.finish()
    assert judge(events) == []
    assert [stay.who for stay in stays(events)] == ["worker-0", "worker-1"]
    assert asyncio.run(left_on(server, crew.key)) == []
    assert check_exclusion(stays(map(naively, events)))  # the broken twin: who ignores the loss


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_frozen_again_and_again_under_load(own_server: Start, kind: str) -> None:
    server = own_server()
    with Crew("contend", [server.url] * 3, kind=kind, tasks=2, ttl=1.0) as crew:
        for _ in range(5):
            crew.await_more(5)
            with server.paused():
                time.sleep(1.5)
        crew.await_more(5)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert asyncio.run(left_on(server, crew.key)) == []


async def fill_the_memory(server: RedisServer) -> None:
    """Hold, renew, leave, be called and be refused on a server whose memory is full; then go on when it is not."""
    async with aiodlock.connect(server.url, name="first") as first, aiodlock.connect(server.url, name="next") as next_:
        hold = await first.lock("full", ttl=3.0).acquire()
        waiting = asyncio.create_task(next_.lock("full", ttl=3.0).acquire())
        waiting.add_done_callback(lambda done: done.exception())  # a twin fails before it is waited for
        await until_in_line(first, "full", 2)
        ask(server, "CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(BackendUnavailableError):
            await next_.lock("another", ttl=4.0).acquire()
        hold.check()  # renewed meanwhile, for longer than its ttl
        await hold.release()
        async with asyncio.timeout(20):
            await (await waiting).release()
        ask(server, "CONFIG", "SET", "maxmemory", "0")
        async with next_.lock("another", wait=5):
            pass


async def test_full_memory_refuses_newcomers_and_nobody_else(own_server: Start) -> None:
    """Who is inside stays, who waits gets in, what is left is free."""
    server = own_server()
    await fill_the_memory(server)
    assert await left_on(server, "*") == []


async def test_full_memory_shows_who_takes_more_for_a_renewal(own_server: Start) -> None:
    """The broken twin loses its lock."""
    with broken(TWINS["takes_memory"]), pytest.raises(LockLostError):
        await fill_the_memory(own_server())
