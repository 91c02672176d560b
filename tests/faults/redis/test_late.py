"""Messages that arrive late: a join overtaken by its leave, a batch's end by its repetition, a slow answer."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import Hold, LockClient
from aiodlock._core.engine import LONGEST_BATCH
from aiodlock.backends.redis.scripts import load
from aiodlock.errors import AcquireTimeoutError
from aiodlock.testing.history import Event, Recorder, check_exclusion, check_fencing, stays
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
from tests.faults.redis.admin import left_on
from tests.faults.redis.clients import two_clients
from tests.faults.twins import TWINS
from tests.faults.visits import believe, kept_by, until_in_line
from tests.fuzz.twins import broken
from tests.integration.redis.scripts import load_scripts

JOIN = load("join").sha.encode()


@pytest.fixture(autouse=True)
def scripts_are_loaded(server: RedisServer) -> None:
    load_scripts(server)


async def enter(locks: LockClient, key: str) -> None:
    async with locks.lock(key):
        pass


async def in_line(locks: LockClient, key: str) -> list[str]:
    return [row.owner async for row in locks.inspect(key)]


async def overtake_a_join(server: RedisServer, proxy: FaultProxy, key: str) -> list[str]:
    """Let the leave of an acquire that gave up arrive before its join; return who is in line then."""
    async with two_clients(server, proxy) as (far, near):
        late = proxy.hold_back(match=JOIN)
        acquiring = asyncio.create_task(far.lock(key).acquire(0.2))
        await asyncio.to_thread(late.wait, within=5)
        proxy.drop_request(match=JOIN)  # so that it gives up
        proxy.cut()
        with pytest.raises(AcquireTimeoutError):
            await acquiring
        assert await kept_by(far) == []
        await asyncio.to_thread(late.deliver)
        return await in_line(near, key)


async def test_a_join_that_arrives_after_its_leave_stands_nowhere(server: RedisServer, proxy: FaultProxy) -> None:
    assert await overtake_a_join(server, proxy, "late join") == []
    assert await left_on(server, "late join") == []


async def test_a_late_join_shows_who_does_not_bury(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin: an orphan stands inside for its whole life."""
    with broken(TWINS["no_burying"]):
        assert await overtake_a_join(server, proxy, "orphan") == ["far"]


async def overtake_the_end_of_a_batch(server: RedisServer, proxy: FaultProxy, key: str) -> list[str]:
    """Let a leave-and-stand arrive when its repetition was answered and everybody has gone; return who is in line."""
    async with two_clients(server, proxy) as (far, near):
        hold = await far.lock(key).acquire()
        tasks = [asyncio.create_task(enter(locks, key)) for locks in (far, near)]
        await until_in_line(near, key, 2)
        await far.ping()  # behind the word that company has come
        await asyncio.sleep(2 * LONGEST_BATCH)
        late = proxy.hold_back(match=JOIN)
        hold.release_nowait()
        await asyncio.to_thread(late.wait, within=5)
        proxy.cut()
        await asyncio.gather(*tasks)
        assert await kept_by(far) == []
        await asyncio.to_thread(late.deliver)
        return await in_line(near, key)


async def test_the_end_of_a_batch_that_arrives_twice_leaves_nothing(server: RedisServer, proxy: FaultProxy) -> None:
    """What was sent first comes last: both of its tickets have gone, and stay so."""
    assert await overtake_the_end_of_a_batch(server, proxy, "late batch") == []
    assert await left_on(server, "late batch") == []


async def test_a_late_end_of_a_batch_shows_who_does_not_bury(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin: the ticket that was to stand again does, for nobody."""
    with broken(TWINS["no_burying"]):
        assert await overtake_the_end_of_a_batch(server, proxy, "orphan of a batch") == ["far"]


async def answer_late(server: RedisServer, proxy: FaultProxy, key: str) -> list[Event]:
    """Answer a join when a good part of its lease is over, and let nothing more of its client through."""
    events: list[Event] = []

    async def acquire(locks: LockClient) -> Hold:
        record = Recorder(events.append, who=locks.name)
        asked = record.now()
        hold = await locks.lock(key, ttl=6.0).acquire()
        believe(record, hold, key, asked=asked)
        return hold

    async with two_clients(server, proxy) as (far, near):
        proxy.half_open(requests=False)
        late = asyncio.create_task(acquire(far))
        await until_in_line(near, key, 1)
        waiting = asyncio.create_task(acquire(near))
        await asyncio.sleep(1.8)
        proxy.heal()
        hold = await late
        proxy.refuse()
        proxy.reset()
        await (await waiting).release()
        proxy.heal()
        if not hold.lost:
            hold.release_nowait()
    return events


async def test_a_lease_counts_from_before_it_was_asked_for(server: RedisServer, proxy: FaultProxy) -> None:
    """The next one enters when the server says so, and by then the first has stopped to believe."""
    history = stays(await answer_late(server, proxy, "slow"))
    assert [stay.who for stay in history] == ["far", "near"]
    assert check_exclusion(history) == []
    assert check_fencing(history) == []
    assert await left_on(server, "slow") == []


async def test_a_slow_answer_shows_who_counts_from_there(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin still believes when the next one is inside; the fence is in order all the same."""
    with broken(TWINS["counted_from_answer"]):
        history = stays(await answer_late(server, proxy, "slow twin"))
    assert [violation.rule for violation in check_exclusion(history)] == ["exclusion"]
    assert check_fencing(history) == []
