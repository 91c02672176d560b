"""min_replicas: what too few replicas have does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import aiodlock
from aiodlock import AcquireTimeoutError, BackendUnavailableError
from aiodlock._core.line import Answer, Gone, GoneWhy, Inside, Ticket
from aiodlock.backends.redis import RedisBackend, confirmed
from aiodlock.backends.redis.scripts import load, to_answer
from aiodlock.errors import ConfigurationError
from aiodlock.testing.servers import RedisServer
from aiodlock.testing.servers.resp import info
from tests.integration.redis.conftest import Client, Pair, client_of, until

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


# --- verbs ---------------------------------------------------------------------------------------------------


async def test_with_its_replica_everything_counts(connect: Connect, pair: Pair, ticket: Make) -> None:
    """Answers are as without; the scripts that the server did not know yet are loaded on the way."""
    client = await connect(pair.url, min_replicas=1)
    first, second = ticket(), ticket()
    assert isinstance(await client.backend.join(first), Inside)
    assert not isinstance(await client.backend.join(second), Inside | Gone)
    await client.backend.leave(first)
    assert isinstance(await client.answer(second), Inside)
    assert isinstance(await client.answer(first), Gone)
    await client.backend.aclose()


async def test_without_its_replica_a_join_has_to_be_left_and_a_renewal_was_none(
    connect: Connect, pair: Pair, ticket: Make
) -> None:
    """A refusal is a refusal all the same."""
    client = await connect(pair.url, min_replicas=1)
    first, second = ticket(), ticket()
    assert isinstance(await client.backend.join(first), Inside)
    pair.cut()
    answer = await client.backend.join(second)
    assert isinstance(answer, Gone)
    assert answer.why is GoneWhy.UNCONFIRMED
    assert await client.answer(first) is None
    gone = await client.answer(ticket())
    assert isinstance(gone, Gone)
    assert gone.why is GoneWhy.EXPIRED
    await client.backend.aclose()


async def test_commands_of_one_moment_share_a_wait(connect: Connect, pair: Pair, ticket: Make) -> None:
    """Hundred joins without the replica fail together, not one after the other."""
    client = await connect(pair.url, min_replicas=1)
    await client.backend.join(ticket())
    pair.cut()
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers = await asyncio.gather(*(client.backend.join(ticket()) for _ in range(100)))
    assert {type(answer) for answer in answers} == {Gone}
    assert loop.time() - began < 30  # one after the other: 100 s
    waits = info(pair.master.port, "commandstats").partition(b"cmdstat_wait:calls=")[2].partition(b",")[0]
    assert int(waits) <= 5
    await client.backend.aclose()


async def test_a_join_asked_again_is_written_again(connect: Connect, server: RedisServer, ticket: Make) -> None:
    """So that WAIT, which counts its own connection's writes, waits for it on a new connection too."""
    client = await connect()
    mine = ticket()
    await client.backend.join(mine)
    before = info(server.port, "commandstats").partition(b"cmdstat_hset:calls=")[2].partition(b",")[0]
    assert isinstance(await client.backend.join(mine), Inside)
    after = info(server.port, "commandstats").partition(b"cmdstat_hset:calls=")[2].partition(b",")[0]
    assert int(after) == int(before) + 1


async def test_scripts_that_vanish_are_no_false_confirmation(connect: Connect, pair: Pair, ticket: Make) -> None:
    """The command that met NOSCRIPT is sent again behind its WAIT: that WAIT is not believed."""
    client = await connect(pair.url, min_replicas=1)
    await client.backend.join(ticket())
    await client.do("SCRIPT", "FLUSH")
    pair.cut()
    answer = await client.backend.join(ticket())
    assert isinstance(answer, Gone)
    assert answer.why is GoneWhy.UNCONFIRMED
    await client.backend.aclose()


def test_a_number_that_makes_no_sense_is_refused_before_any_connection() -> None:
    for wrong in (-1, "2", True):
        with pytest.raises(ConfigurationError, match="min_replicas"):
            aiodlock.connect("redis://localhost", min_replicas=wrong)


# --- locks ---------------------------------------------------------------------------------------------------


async def test_a_lock_waits_for_the_replica_to_come_back(pair: Pair) -> None:
    """Unconfirmed tickets leave and others stand; the first confirmed one gets in."""
    async with client_of(pair.url, "a", min_replicas=1) as locks:
        pair.cut()
        waiter = asyncio.create_task(locks.lock("k", ttl=20).acquire())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.shield(waiter)
        pair.copying.heal()
        async with asyncio.timeout(20):
            await (await waiter).release()
        assert [row async for row in locks.inspect("*")] == []


async def test_a_lock_is_refused_in_time_and_nothing_stands(pair: Pair) -> None:
    """By its wait, else by its ttl; what was tried is left at once, though it was not confirmed."""
    async with client_of(pair.url, "a", min_replicas=1) as locks, client_of(pair.url, "b") as other:
        pair.cut()
        with pytest.raises(AcquireTimeoutError):
            await locks.lock("k").acquire(0.5)
        for call in (locks.lock("k", ttl=1).acquire, locks.lock("k", ttl=1).try_acquire):
            with pytest.raises(BackendUnavailableError, match="check the server"):
                await call()
        async with other.lock("k", wait=5):  # which asks for no replica
            pass


async def enters_when_called(pair: Pair, *, trusting: bool) -> bool:
    """Cut the replica off, call a waiter, and tell whether it enters; it does when the replica is back."""
    async with client_of(pair.url, "a", min_replicas=1) as mine, client_of(pair.url, "b", min_replicas=1) as other:
        other._at_work().trusts_calls = trusting
        hold = await mine.lock("k", ttl=20).acquire()
        waiter = asyncio.create_task(other.lock("k", ttl=20).acquire())
        await until(lambda: any(place.answered for place in other._at_work().places.values()))
        pair.cut()
        await hold.release()
        done, _ = await asyncio.wait({waiter}, timeout=2.0)
        pair.copying.heal()
        async with asyncio.timeout(20):
            await (await waiter).release()
    return bool(done)


async def test_a_called_waiter_enters_only_when_confirmed(pair: Pair) -> None:
    """The call arrives while the replica is away: nobody enters until it is back."""
    assert not await enters_when_called(pair, trusting=False)


async def test_a_client_that_trusts_calls_is_found(pair: Pair) -> None:
    """The broken twin."""
    assert await enters_when_called(pair, trusting=True)


async def lasts_without_replica(pair: Pair) -> bool:
    async with client_of(pair.url, "a", min_replicas=1) as locks:
        hold = await locks.lock("k", ttl=2.0).acquire()
        pair.cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(4.0):
                await hold.wait_lost()
        held = not hold.lost
        if held:
            await hold.release()
    return held


async def test_a_renewal_without_replica_moves_no_deadline(pair: Pair) -> None:
    """The hold is lost at the end of the lease that was confirmed."""
    assert not await lasts_without_replica(pair)


@pytest.mark.long
async def test_a_client_that_believes_unconfirmed_renewals_is_found(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: the server renews, so the hold goes on."""
    monkeypatch.setattr(confirmed, "doubted", lambda answer: answer)
    assert await lasts_without_replica(pair)


async def downgrade_moves_the_deadline(pair: Pair) -> bool:
    """Cut the replica off, let the server renew, become a reader; tell whether that counted as a renewal."""
    async with client_of(pair.url, "a", min_replicas=1) as locks:
        hold = await locks.rwlock("k", ttl=3).write().acquire()
        before = hold._place.deadline
        pair.cut()
        rows = [row async for row in locks.inspect("k")]
        while rows[0].remaining < 2.5 or hold.remaining > 2:  # until a renewal was done there, and not confirmed
            await asyncio.sleep(0.05)
            rows = [row async for row in locks.inspect("k")]
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await hold.downgrade()
        moved = hold._place.deadline > before
        await hold.release()
    return moved


async def test_a_downgrade_without_replica_moves_no_deadline(pair: Pair) -> None:
    """What the server answers tells of a life that no replica knows of."""
    assert not await downgrade_moves_the_deadline(pair)


async def test_a_client_that_believes_an_unconfirmed_downgrade_is_found(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: sent where nobody waits for a replica."""

    def unconfirmed(self: RedisBackend, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        return self._call(load("weight"), ticket.line, ticket.id, weight, decode=to_answer)

    monkeypatch.setattr(RedisBackend, "change_weight", unconfirmed)
    assert await downgrade_moves_the_deadline(pair)
