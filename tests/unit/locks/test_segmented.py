"""The segmented lock: where a user belongs, what any() costs and leaves, and the guard of the number of segments."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections import Counter

import pytest

import aiodlock
from aiodlock import (
    AnySegment,
    BackendUnavailableError,
    ConfigurationError,
    InvalidKeyError,
    LockClient,
    LockError,
    LockLostError,
    SegmentLock,
    TooManyWaitersError,
)
from aiodlock._core.place import Place
from aiodlock.events import Event, HoldAbandoned
from aiodlock.locks.agreement import Guard
from aiodlock.testing import Faults, LoopClock, settle

# Written down once and for all: another value here would send users to other segments than processes that run already.
GOLDEN = {"u-17": 12, "u-18": 13, "": 0, "秒杀": 5, "\x00": 13, "-1": 10, 0: 1, -1: 10, 10**30: 7, b"u-17": 12}

ROUTE = (
    "import aiodlock; h = aiodlock.connect('memory://').segmented('k', segments=16); "
    "print([h.segment_of(u) for u in {!r}])"
)


# --- routing -------------------------------------------------------------------------------------------------


def test_a_user_belongs_to_one_segment_for_ever() -> None:
    """Strings, numbers and bytes; a number is its digits."""
    hot = aiodlock.connect("memory://").segmented("k", segments=16)
    assert {who: hot.segment_of(who) for who in GOLDEN} == GOLDEN


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_segment_does_not_depend_on_the_process(seed: str) -> None:
    """Whatever the hashes of strings are there."""
    code = ROUTE.format(list(GOLDEN))
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
    )
    assert run.stdout.decode().strip() == str(list(GOLDEN.values()))


def test_users_are_spread_evenly() -> None:
    """No segment has a quarter more or less than its share."""
    hot = aiodlock.connect("memory://").segmented("k", segments=16)
    counts = Counter(hot.segment_of(f"user-{n}") for n in range(16_000))
    assert len(counts) == 16
    assert all(750 < count < 1250 for count in counts.values())


def test_what_cannot_be_segmented_is_refused() -> None:
    """Before any I/O; a key may be as long as the longest key of a segment allows."""
    locks = aiodlock.connect("memory://")
    for segments in (0, -1, True, 1.0, 1025):
        with pytest.raises(ConfigurationError):
            locks.segmented("k", segments=segments)
    locks.segmented("k" * 252, segments=16)
    with pytest.raises(InvalidKeyError):
        locks.segmented("k" * 254, segments=16)


def test_the_kind_of_lock_says_whether_it_steals() -> None:
    """One segment, or the first of all."""
    hot = aiodlock.connect("memory://").segmented("k", segments=2)
    assert isinstance(hot.lock("u"), SegmentLock)
    assert isinstance(hot.lock("u", steal=True), AnySegment)
    assert repr(hot) == "<SegmentedLock 'k' of 2>"


# --- any() ---------------------------------------------------------------------------------------------------


async def test_a_free_segment_costs_one_ticket(locks: LockClient, faults: Faults) -> None:
    """And not one for each; the guard is there already."""
    hot = locks.segmented("k", segments=16)
    async with hot.any():
        pass
    faults.sent.clear()
    async with hot.any():
        pass
    assert faults.sent == ["join", "leave"]


@pytest.mark.parametrize("wait", [0, 1])
async def test_home_is_before_the_others(locks: LockClient, other: LockClient, wait: float) -> None:
    """Waiting or not, who steals takes another segment only if its own is taken."""
    hot = locks.segmented("k", segments=4)
    for user in range(8):
        async with await hot.lock(user, steal=True).acquire(wait) as hold:
            assert hold.segment == hot.segment_of(user)
        async with other.segmented("k", segments=4).lock(user), await hot.lock(user, steal=True).acquire(wait) as hold:
            assert hold.segment != hot.segment_of(user)


async def test_a_task_enters_again_what_it_has(locks: LockClient, other: LockClient) -> None:
    """By any(), by its user, and stealing; never a deadlock with itself."""
    hot = locks.segmented("k", segments=2)
    async with hot.any() as hold:
        async with hot.any() as again, hot.lock("u", steal=True) as third:
            assert (again.fence, third.fence) == (hold.fence, hold.fence)
        async with other.segmented("k", segments=2).any() as theirs:
            assert theirs.segment != hold.segment
    fixed = locks.segmented("k", segments=2, reentrant=False)
    async with fixed.any():
        with pytest.raises(LockError, match="not re-entrant"):
            await fixed.any().acquire()


async def test_the_owner_is_the_task_that_asked(locks: LockClient, events: list[Event]) -> None:
    """Its hold is renewed as long as that task lives, and is not taken for abandoned."""
    async with locks.segmented("k", segments=4, ttl=1).any() as hold:
        await asyncio.sleep(20)
        hold.check()
    assert not any(isinstance(event, HoldAbandoned) for event in events)


async def test_errors_are_told_as_they_are(locks: LockClient, faults: Faults) -> None:
    """An outage is no time-out, and a limit is a limit."""
    hot = locks.segmented("k", segments=3, ttl=2)
    async with hot.any():
        pass
    faults.go_down()
    for ask in (hot.any().acquire, hot.any().try_acquire):
        with pytest.raises(BackendUnavailableError):
            await ask()
    faults.come_back()
    async with aiodlock.connect("memory://", clock=LoopClock(), max_waiters=2) as client:
        hot = client.segmented("k", segments=3)
        async with hot.all():
            with pytest.raises(TooManyWaitersError):
                await asyncio.create_task(hot.any().acquire())
            assert await asyncio.create_task(hot.any().try_acquire()) is None
            assert client._engine is not None
            assert client._engine.waiting == 0


async def test_closing_tells_who_waits_for_any(other: LockClient) -> None:
    """As with every lock."""
    async with other.segmented("k", segments=2).all():
        async with aiodlock.connect("memory://shop", clock=LoopClock()) as client:
            task = asyncio.create_task(client.segmented("k", segments=2).any().acquire())
            await settle()
        with pytest.raises(aiodlock.ClientClosedError):
            await task


@pytest.mark.parametrize("steps", range(12))
async def test_a_segment_won_as_the_task_is_cancelled_is_given_back(
    locks: LockClient, other: LockClient, steps: int
) -> None:
    """Several at once, too: whichever were granted meanwhile."""
    hot = locks.segmented("k", segments=3)
    blocker = await other.segmented("k", segments=3).all().acquire()
    task = asyncio.create_task(hot.any().acquire())
    await settle()
    blocker.release_nowait()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        await task.result().release()
    await settle()
    assert {row.kind async for row in locks.inspect()} <= {"segments"}
    assert locks._engine is not None
    assert locks._engine.waiting == 0


async def test_any_of_many_waiters_uses_every_segment(locks: LockClient, other: LockClient) -> None:
    """Forty tasks of two clients, four segments: never two in one, never a free one while somebody waits."""
    inside: dict[int, int] = {}
    most = 0

    async def visit(client: LockClient) -> None:
        nonlocal most
        async with client.segmented("k", segments=4).any() as hold:
            inside[hold.segment] = inside.get(hold.segment, 0) + 1
            assert inside[hold.segment] == 1
            most = max(most, sum(inside.values()))
            await asyncio.sleep(0.1)
            inside[hold.segment] -= 1

    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(visit(client) for client in (locks, other) for _ in range(20)))
    assert most == 4
    assert asyncio.get_running_loop().time() - began < 1.5  # ten rounds, and a little


# --- the face ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["any", "steal", "all"])
async def test_they_have_the_face_of_every_lock(locks: LockClient, other: LockClient, way: str) -> None:
    """run, locked, holder, revoke, force_release, a stack of blocks per task."""
    hot = locks.segmented("k", segments=2)
    lock = {"any": hot.any, "all": hot.all, "steal": lambda: hot.lock("u", steal=True)}[way]()
    assert not await lock.locked()
    assert await lock.run(lambda: 3) == 3
    async with lock as hold:
        assert await lock.locked()
        assert await lock.holder() == "web-1"
        assert await lock.revoke("please") == (2 if way == "all" else 1)
        await settle()
        assert hold.revoked
        with pytest.raises(aiodlock.NotHeldError):
            await asyncio.create_task(lock.__aexit__(None, None, None))
    with pytest.raises(LockLostError):
        async with lock:
            assert await lock.force_release() == (2 if way == "all" else 1)
            await asyncio.sleep(1)
    assert await lock.holder() is None


async def test_inspect_finds_segments_by_their_key(locks: LockClient) -> None:
    """They sort behind it."""
    async with locks.segmented("sku:42", segments=16).all():
        keys = {row.key async for row in locks.inspect("sku:42:*")}
    assert keys == {f"sku:42:{n}" for n in range(16)}


# --- the guard -----------------------------------------------------------------------------------------------


def _guards(locks: LockClient) -> list[Place]:
    assert locks._engine is not None
    return [place for place in locks._engine.places.values() if place.ticket.line.kind == "segments"]


async def test_a_client_has_one_agreement_while_it_is_used(locks: LockClient) -> None:
    """Whatever policy the segments have; it goes one ttl after the last use."""
    hot = locks.segmented("k", segments=2, ttl=2, renew=False, max_hold=0.5, wait=0, fair=True, on_lost="flag")
    again = locks.segmented("k", segments=2, ttl=2)
    with pytest.raises(LockLostError):
        async with hot.any(), again.any():
            await asyncio.sleep(1)
    async with again.lock("u"):
        await asyncio.sleep(10)
        assert [row.kind async for row in locks.inspect("k")] == ["segments"]
    await asyncio.sleep(2.1)
    assert [row async for row in locks.inspect()] == []


async def test_objects_of_one_key_share_a_guard(locks: LockClient) -> None:
    """One made for every request, on a key that is always in use: nothing grows."""
    async with locks.segmented("k", segments=4, ttl=1).lock("busy"):
        for number in range(100):
            async with locks.segmented("k", segments=4, ttl=1).lock(f"user-{number}", steal=True):
                await asyncio.sleep(0.05)
        assert [len(place.holds) for place in _guards(locks)] == [1]
        gc.collect()
        assert sum(type(thing) is Guard for thing in gc.get_objects()) == 1
    await asyncio.sleep(1.1)
    assert _guards(locks) == []


async def test_a_longer_lease_has_a_longer_guard(locks: LockClient) -> None:
    """In the stead of the one that was there, which the shorter leases do not need any more."""
    async with locks.segmented("k", segments=16, ttl=2).lock("u") as hold:
        for ttl in (20, 5):
            async with locks.segmented("k", segments=16, ttl=ttl).lock("v"):
                assert [place.ticket.ttl for place in _guards(locks)] == [40]
        await asyncio.sleep(100)
        hold.check()
        assert [place.ticket.ttl for place in _guards(locks)] == [40]
    await asyncio.sleep(20.1)
    assert _guards(locks) == []


@pytest.mark.parametrize("after", [0.0, 0.6, 0.66, 1.9])
async def test_a_fixed_lease_outlasts_an_outage(locks: LockClient, faults: Faults, after: float) -> None:
    """However old the guard is: the segment ends by its own lease."""
    async with locks.segmented("k", segments=16, ttl=1).lock("another"):
        await asyncio.sleep(after)
        hold = await locks.segmented("k", segments=16, ttl=1, renew=False).lock("u").acquire()
    faults.go_down()
    assert hold.remaining == pytest.approx(0.988)
    await asyncio.sleep(0.98)
    hold.check()
    await asyncio.sleep(0.01)
    assert hold.lost
    faults.come_back()


async def test_an_extended_segment_has_its_guard_extended(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """It lasts that long without the server, and so does the number; where the guard has enough, nothing is sent."""
    hot = locks.segmented("k", segments=2, ttl=3)
    async with hot.all() as whole:
        faults.sent.clear()
        await whole.extend(60)
        assert faults.sent == ["renew"] * 3
        faults.go_down()
        await asyncio.sleep(59)
        whole.check()
        with pytest.raises(ConfigurationError):
            await other.segmented("k", segments=3).any().acquire()
        faults.come_back()


async def _end_guard(locks: LockClient) -> None:
    for place in _guards(locks):
        locks._engine.backend.server.leave(place.ticket, None, bury=False)  # type: ignore[union-attr]
    await settle()


@pytest.mark.parametrize("way", ["lock", "acquire", "any", "all"])
async def test_a_lost_guard_loses_the_segments(locks: LockClient, other: LockClient, way: str) -> None:
    """Somebody ended it, and others may count differently from now on; the next one agrees again."""
    hot = locks.segmented("k", segments=2)
    lock = {"any": hot.any, "all": hot.all}.get(way, lambda: hot.lock("u"))()
    with pytest.raises(LockLostError, match="somebody else gave it up"):
        async with await lock.acquire() if way == "acquire" else lock as hold:
            await _end_guard(locks)
            async with other.segmented("k", segments=3).any():
                assert hold.lost
            await asyncio.sleep(1)
    await other.aclose()
    async with hot.any():
        assert len(_guards(locks)) == 1


@pytest.mark.parametrize("way", ["block", "acquire", "any", "run", "all"])
async def test_who_waits_agrees_again(locks: LockClient, other: LockClient, way: str) -> None:
    """The guard was lost meanwhile: whoever gets in has a new one."""
    async with other.segmented("k", segments=2).all():
        task = asyncio.create_task(_guards_inside(locks, way))
        await settle()
        await _end_guard(locks)
        assert _guards(locks) == []
    assert len(await task) == 1


@pytest.mark.parametrize("way", ["block", "acquire", "any", "run", "all"])
async def test_who_waited_is_told_that_others_count_differently(
    locks: LockClient, other: LockClient, third: LockClient, way: str
) -> None:
    """The guard was lost meanwhile, and another number agreed on: nobody gets in, and nothing is left."""
    blocker = await other.segmented("k", segments=2).all().acquire()
    task = asyncio.create_task(_guards_inside(locks, way))
    await settle()
    await _end_guard(locks)
    await _end_guard(other)
    assert blocker.lost
    async with third.segmented("k", segments=3).segment(2):
        await other.aclose()
        with pytest.raises(ConfigurationError, match="in use with 3 segments"):
            await task
        await settle()
        assert {row.owner async for row in locks.inspect()} == {"web-3"}


async def _guards_inside(locks: LockClient, way: str) -> list[Place]:
    """Enter a segment, and return the guards that the client has then."""
    hot = locks.segmented("k", segments=2)
    if way == "run":
        return await hot.lock("u").run(lambda: _guards(locks))
    lock = {"any": hot.any, "all": hot.all}.get(way, lambda: hot.lock("u"))()
    async with lock if way == "block" else await lock.acquire():
        return _guards(locks)


async def test_a_guard_whose_time_is_over_is_noticed_by_a_look(locks: LockClient) -> None:
    """Also where the process was frozen past it: before anything else runs, and when a block ends."""
    hot = locks.segmented("k", segments=2)
    hold = await hot.lock("u").acquire()
    assert 29 < hold.remaining < 30
    _guards(locks)[0].deadline -= 40
    assert hold.remaining == pytest.approx(19.4, abs=0.1)
    _guards(locks)[0].deadline -= 20
    assert hold.lost
    with pytest.raises(LockLostError):
        async with hot.lock("u"):
            _guards(locks)[0].deadline -= 60


async def test_the_agreement_waits_no_longer_than_its_lock(locks: LockClient, faults: Faults) -> None:
    """A server that does not answer: the time is over when it is over, for both together."""
    hot = locks.segmented("k", segments=2, wait=1, ttl=30)
    faults.fall_silent()
    began = asyncio.get_running_loop().time()
    for ask in (hot.lock("u").acquire, hot.any().acquire, hot.all().acquire, hot.lock("u").__aenter__):
        with pytest.raises(TimeoutError):
            await ask()
    assert asyncio.get_running_loop().time() - began == pytest.approx(4)
    faults.come_back()


async def test_what_is_left_of_the_wait_is_for_the_segment(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """The guard takes a while, the segment is taken: one deadline."""
    async with other.segmented("k", segments=1).any():
        faults.drop_request("join", times=3)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await locks.segmented("k", segments=1).lock("u").acquire(0.5)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)


async def test_a_closed_client_has_no_agreement(other: LockClient) -> None:
    """Its number is gone with it, and its timers do nothing."""
    async with aiodlock.connect("memory://shop", clock=LoopClock()) as client, client.segmented("k", segments=2).any():
        pass
    async with other.segmented("k", segments=3).any():
        await asyncio.sleep(60)
