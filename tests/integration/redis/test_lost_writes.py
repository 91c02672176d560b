"""A failover that loses what was acknowledged: two holders whose fences are in order; with min_replicas one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from aiodlock import AcquireTimeoutError, Hold, LockClient
from aiodlock.backends.redis import confirmed
from aiodlock.testing.history import Event, Recorder, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from tests.integration.redis.conftest import Pair, client_of


async def lose_a_write(pair: Pair, **settings: object) -> list[Event]:
    """Acquire while the replica is cut off, let the master die, promote the replica, acquire there."""
    events: list[Event] = []
    holds: list[Hold] = []

    async def hold(locks: LockClient) -> None:
        record = Recorder(events.append, who=locks.name)
        asked = record.now()
        holds.append(own := await locks.lock("k", ttl=10).acquire(2))
        facts = {"key": "k", "id": own.fence, "fence": own.fence}
        record("inside", **facts, asked=asked, valid_until=record.now() + own.remaining)

    async with client_of(pair.url, "before", **settings) as before:
        pair.cut()
        with suppress(AcquireTimeoutError):
            await hold(before)
        await asyncio.to_thread(pair.master.crash)
        await asyncio.to_thread(pair.replica.promote)
        async with client_of(pair.replica.url, "after") as after:
            await hold(after)
    return events


async def test_a_failover_that_loses_an_acknowledged_write_makes_two_holders(pair: Pair) -> None:
    """What nobody can promise: Redis answers before its replicas have it. The fence is in order all the same."""
    history = stays(await lose_a_write(pair))
    assert [stay.who for stay in history] == ["before", "after"]
    (violation,) = check_exclusion(history)
    assert "before, after" in str(violation)
    assert check_fencing(history) == []


async def test_min_replicas_makes_one(pair: Pair) -> None:
    """The same failover: who was not confirmed never believed to be inside."""
    history = stays(await lose_a_write(pair, min_replicas=1))
    assert [stay.who for stay in history] == ["after"]
    assert check_exclusion(history) == []


async def test_a_client_that_believes_unconfirmed_answers_is_found(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: WAIT is sent and its answer ignored."""
    monkeypatch.setattr(confirmed, "doubted", lambda answer: answer)
    assert check_exclusion(stays(await lose_a_write(pair, min_replicas=1)))


def test_processes_that_were_both_inside_are_found(pair: Pair) -> None:
    """The broken twin of a failover under load: the same processes, the same judges, a replica that lacks a write."""
    contend = "tests.integration.redis.contenders:contend"
    pair.cut()
    with Worker(contend, who="p0", url=pair.url, ttl=10, step=30) as before:
        before.await_event("inside", within=20)
        pair.master.crash()
        pair.replica.promote()
        with Worker(contend, who="p1", url=pair.replica.url) as after:
            after.await_event("inside", within=20)
    history = stays([*before.events(), *after.events()])
    assert check_exclusion(history)
    assert check_fencing(history) == []
