"""Redlock: what a majority has left is left everywhere, and nobody is held up by a server that hangs."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import LockClient
from aiodlock._core.line import TicketId
from aiodlock.backends.redis.backend import _LEAVE
from aiodlock.backends.redis.master import Master
from aiodlock.backends.redis.redlock import RedlockBackend
from aiodlock.backends.redis.stand import Stand
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import IndependentMasters, RedisServer
from tests.integration.redis.conftest import until
from tests.integration.redlock.conftest import Connect, node_address, taken, ticket, until_empty, until_shown


async def leave_behind_its_back(connect: Connect, missed: RedisServer, proxies: list[FaultProxy], key: str) -> None:
    """Give a hold up that all have while the last of the servers cannot be reached; then it can again."""
    locks = await connect(proxies)
    hold = await locks.lock(key, ttl=60.0).acquire()
    await until_shown(missed, key, [True])
    proxies[4].refuse()
    proxies[4].cut()
    await hold.release()
    proxies[4].heal()


async def test_a_server_that_missed_the_leave_is_left_when_it_is_back(
    connect: Connect, shared_masters: IndependentMasters, proxies: list[FaultProxy], key: str
) -> None:
    """Long before the lease ends there."""
    await leave_behind_its_back(connect, shared_masters.nodes[4], proxies, key)
    await until_empty(shared_masters.nodes[4], key)


async def test_a_client_that_forgets_what_it_owes_is_found(
    connect: Connect,
    shared_masters: IndependentMasters,
    proxies: list[FaultProxy],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin."""
    monkeypatch.setattr(Master, "pay_debts", lambda self: None)
    await leave_behind_its_back(connect, shared_masters.nodes[4], proxies, key)
    with pytest.raises(TimeoutError):
        await until_empty(shared_masters.nodes[4], key, within=2.0)


async def close_owing(missed: RedisServer, proxies: list[FaultProxy], key: str) -> None:
    """Close a client right after the last of its servers has not heard of a release."""
    backend = RedlockBackend([node_address(proxy.port) for proxy in proxies])
    async with LockClient(backend) as locks:
        hold = await locks.lock(key, ttl=60.0).acquire()
        await until_shown(missed, key, [True])
        proxies[4].drop_request(match=_LEAVE.sha.encode(), times=1)
        await hold.release()


async def test_closing_leaves_again_what_one_server_missed(
    shared_masters: IndependentMasters, proxies: list[FaultProxy], key: str
) -> None:
    """Not only a client that goes on has to."""
    await close_owing(shared_masters.nodes[4], proxies, key)
    await until_empty(shared_masters.nodes[4], key, within=2.0)


async def test_a_client_that_closes_owing_is_found(
    shared_masters: IndependentMasters, proxies: list[FaultProxy], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""

    async def let_be(self: Master, *, within: float) -> None:
        pass

    monkeypatch.setattr(Master, "settle", let_be)
    await close_owing(shared_masters.nodes[4], proxies, key)
    with pytest.raises(TimeoutError):
        await until_empty(shared_masters.nodes[4], key, within=2.0)


async def test_what_a_failed_try_got_is_given_back_though_its_leave_was_lost(
    connect: Connect, shared_masters: IndependentMasters, proxies: list[FaultProxy], key: str
) -> None:
    """The try is over and forgotten; what it owes is not."""
    locks = await connect(proxies)
    proxies[4].drop_request(match=_LEAVE.sha.encode(), times=1)
    async with taken(shared_masters.nodes[:3], key):
        assert await locks.lock(key, ttl=60.0).try_acquire() is None
        for node in shared_masters.nodes[3:]:
            await until_empty(node, key)


async def test_a_server_that_hangs_holds_no_failed_try_up(
    connect: Connect, masters: IndependentMasters, key: str
) -> None:
    """Three have refused: it gets as long again, not all the time that there is."""
    locks = await connect(masters.nodes, limit=60.0, patience=60.0)
    async with taken(masters.nodes[:3], key):
        with masters.nodes[4].paused():
            async with asyncio.timeout(20):
                assert await locks.lock(key, ttl=600.0).try_acquire() is None
        await until_empty(masters.nodes[4], key)  # buried there: it was in doubt


async def test_a_server_that_is_away_is_owed_nothing(connect: Connect, masters: IndependentMasters, key: str) -> None:
    """Nothing was sent to it, so nothing piles up while it stays away."""
    locks = await connect(masters.nodes)
    backend = locks.backend
    assert isinstance(backend, RedlockBackend)
    away = backend._council.masters[4]
    masters.nodes[4].crash()
    await until(lambda: not away.is_up)
    for _ in range(20):
        async with locks.lock(key):
            pass
    assert away._debts == {}


async def test_whoever_is_over_is_forgotten_though_another_is_remembered_longer() -> None:
    backend = RedlockBackend.from_url("redlock://h1,h2,h3")
    for name, seconds in (("long", 600.0), ("short", 0.0)):
        backend._stands[TicketId(name)] = Stand(ticket("k", name))
        backend._forget_later(TicketId(name), seconds)
    backend._forget_ended()
    assert [*backend._stands] == ["long"]


def test_each_majority_that_asks_to_go_is_heard_once() -> None:
    """Also the second time, though all five had asked the first time; and though one of them was not heard then."""
    stand = Stand(ticket("k", "t"))
    told = [[stand.is_asked_anew(number, "go", 3) for number in numbers] for numbers in (range(5), range(4), range(5))]
    assert [sum(one) for one in told] == [1, 1, 1]
