"""One backend of a multi-lock is cut off, or its waiter cancelled: all or nothing, nothing is left on the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aiodlock import Hold
from aiodlock.backends.redis.scripts import load
from aiodlock.errors import BackendUnavailableError, LockLostError
from aiodlock.locks import multi
from aiodlock.testing.proxy import FaultProxy
from tests.conformance.worlds import asks_for
from tests.integration.multi.backends import TTL, Clients, until

REAL = ["redis", "zk", "mysql"]
SIGNS: dict[str, Any] = {  # what the request to join is known by
    "redis": load("join").sha.encode(),
    "mysql": b"CALL aiodlock_join(",
    "zk": asks_for("join"),
}

each_real = pytest.mark.parametrize("victim", REAL)
each_real_in_time = pytest.mark.parametrize(
    "victim", ["redis", *(pytest.param(n, marks=pytest.mark.long) for n in REAL[1:])]
)


def ranked(keys: dict[str, str], victim: str, at: int) -> dict[str, str]:
    """Return keys that make *victim* the member number *at*, the first being 0."""
    order = sorted(set(keys) - {victim})
    order.insert(at, victim)
    return {name: f"{number}-{keys[name]}" for number, name in enumerate(order)}


def cut(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.reset()


async def fail_to_acquire(mine: Clients, others: Clients, keys: dict[str, str]) -> None:
    """Acquire while a member cannot be; nothing is left on any server that can be asked."""
    with pytest.raises(BackendUnavailableError):
        await mine.multi(keys).acquire()
    await others.until_empty(keys)


@each_real
async def test_a_backend_that_is_cut_off_leaves_nothing_on_the_others(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], victim: str
) -> None:
    """The member in the middle cannot be had: those before it are given back, with a typed error."""
    cut(proxies[victim])
    await fail_to_acquire(mine, others, ranked(keys, victim, at=2))


@each_real
async def test_a_join_that_arrives_and_is_never_answered_leaves_nothing(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], victim: str
) -> None:
    """Cut in the middle of the join: the member stands there and nobody knows; when the network is back it leaves."""
    keys = ranked(keys, victim, at=2)
    proxies[victim].drop_reply(match=SIGNS[victim])
    acquiring = asyncio.create_task(mine.multi(keys).acquire())
    await until(lambda: proxies[victim].counts.replies_dropped > 0)
    cut(proxies[victim])
    with pytest.raises(BackendUnavailableError):
        await acquiring
    proxies[victim].heal()
    await until(lambda: _is_free(others, victim, keys), within=4 * TTL)
    await others.until_empty(keys)


async def _is_free(others: Clients, name: str, keys: dict[str, str]) -> bool:
    return not await others.rows({name: keys[name]})


@asynccontextmanager
async def _first_lost_while_last_is_waited_for(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str]
) -> AsyncIterator[asyncio.Task[Any]]:
    """Acquire all of *keys*: the last one is taken, and meanwhile the first one's server cut off and its lease over."""
    first, *_, last = sorted(keys, key=keys.__getitem__)
    async with others.clients[last].lock(keys[last]):
        acquiring = asyncio.create_task(mine.multi(keys).acquire())
        await until(lambda: _stand(others, last, keys, 2))
        cut(proxies[first])
        await until(lambda: _is_free(others, first, keys), within=4 * TTL)
        yield acquiring


@each_real_in_time
async def test_a_member_lost_while_a_later_one_is_waited_for_ends_it(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], victim: str
) -> None:
    """The first one is gone when the last one comes: none is held, and the first cannot be had again."""
    keys = ranked(keys, victim, at=0)
    async with _first_lost_while_last_is_waited_for(mine, others, proxies, keys) as acquiring:
        pass
    with pytest.raises(BackendUnavailableError):
        await acquiring
    await others.until_empty(keys)


@each_real_in_time
async def test_a_member_lost_while_a_later_one_is_waited_for_is_acquired_again(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], victim: str
) -> None:
    """If its server is back by then: all of them are held, with a fence above the lost one's."""
    keys = ranked(keys, victim, at=0)
    async with _first_lost_while_last_is_waited_for(mine, others, proxies, keys) as acquiring:
        async with others.clients[victim].lock(keys[victim]) as between:
            fence = between.fence
        proxies[victim].heal()
    async with await acquiring as hold:
        hold.check()
        assert hold.holds[0].fence > fence
        assert {name: len(rows) for name, rows in (await others.rows(keys)).items()} == dict.fromkeys(keys, 1)
    await others.until_empty(keys)


async def _stand(others: Clients, name: str, keys: dict[str, str], count: int) -> bool:
    return len((await others.rows({name: keys[name]})).get(name, [])) == count


async def lose(mine: Clients, proxy: FaultProxy, keys: dict[str, str], *, within: float = 4 * TTL) -> None:
    """Hold all of them in a block, and cut one off."""
    async with asyncio.timeout(within), mine.multi(keys) as hold:
        cut(proxy)
        try:
            await asyncio.Event().wait()
        finally:
            assert hold.lost


@each_real
async def test_a_backend_cut_off_while_held_loses_the_whole(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], victim: str
) -> None:
    """The block is cancelled, and the members on the others are free at once."""
    with pytest.raises(LockLostError) as raised:
        await lose(mine, proxies[victim], keys)
    assert raised.value.key == keys[victim]
    await others.until_empty(keys, but=[victim])
    await until(lambda: _is_free(others, victim, keys), within=4 * TTL)


async def test_a_hold_outside_a_block_says_that_it_is_lost(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str]
) -> None:
    """And its release gives the others back before it says so too."""
    hold = await mine.multi(keys).acquire()
    cut(proxies["redis"])
    async with asyncio.timeout(4 * TTL):
        await hold.wait_lost()
    with pytest.raises(LockLostError):
        hold.check()
    with pytest.raises(LockLostError):
        await hold.release()
    await others.until_empty(keys, but=["redis"])


@pytest.mark.parametrize("taken", ["memory", *REAL])
async def test_a_waiter_that_is_cancelled_leaves_nothing_on_any(
    mine: Clients, others: Clients, keys: dict[str, str], taken: str
) -> None:
    """Whichever member it waits for, with those before it held."""
    keys = ranked(keys, taken, at=2)
    async with others.clients[taken].lock(keys[taken]):
        acquiring = asyncio.create_task(mine.multi(keys).acquire())
        await until(lambda: _stand(others, taken, keys, 2))
        acquiring.cancel()
        await asyncio.wait({acquiring})
        await until(lambda: _stand(others, taken, keys, 1), within=0.8 * TTL)
        await others.until_empty(keys, but=[taken])
    await others.until_empty(keys)


async def cancel_at_many_moments(mine: Clients, others: Clients, keys: dict[str, str]) -> int:
    """Cancel an acquire after more and more time, until one is over before; return how many were cancelled."""
    for moment in range(500):
        acquiring = asyncio.create_task(mine.multi(keys).acquire())
        await asyncio.wait({acquiring}, timeout=moment * 0.001)
        if not acquiring.cancel():
            await acquiring.result().release()
            return moment
        await asyncio.wait({acquiring})
        if not acquiring.cancelled():  # it came in the same step
            await acquiring.result().release()
        await others.until_empty(keys)
    raise AssertionError("it is never over")


async def test_an_acquire_cancelled_at_any_moment_leaves_nothing_on_any(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str]
) -> None:
    """With a network that takes its time, so that there are moments."""
    for proxy in proxies.values():
        proxy.delay(requests=0.002, replies=0.002)
    assert await cancel_at_many_moments(mine, others, keys) > 5
    await others.until_empty(keys)


# --- broken twins --------------------------------------------------------------------------------------------


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Hold]:
    """Earlier members are not given back when a later one cannot be had."""
    holds: list[Hold] = []

    def keep(given: Iterable[Hold]) -> tuple[list[asyncio.Future[None]], None]:
        holds.extend(given)
        return [], None

    monkeypatch.setattr(multi, "_give_back", keep)
    return holds


def give_back(kept: list[Hold]) -> None:
    """Clean up after a twin; what was lost meanwhile is gone already."""
    for hold in kept:
        with suppress(LockLostError):
            hold.release_nowait()


async def test_members_kept_after_a_cut_are_found(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], kept: list[Hold]
) -> None:
    """The twin that keeps them."""
    cut(proxies["zk"])
    with pytest.raises(TimeoutError):
        await fail_to_acquire(mine, others, ranked(keys, "zk", at=2))
    give_back(kept)


async def test_members_kept_after_a_cancel_are_found(
    mine: Clients, others: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], kept: list[Hold]
) -> None:
    """The twin that keeps them."""
    for proxy in proxies.values():
        proxy.delay(requests=0.002, replies=0.002)
    with pytest.raises(TimeoutError):
        await cancel_at_many_moments(mine, others, keys)
    give_back(kept)


async def test_a_block_that_outlives_a_member_is_found(
    mine: Clients, proxies: dict[str, FaultProxy], keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin whose block is not cancelled when one of them is lost."""
    monkeypatch.setattr(multi, "_cancel_once", lambda told, hold: None)
    with pytest.raises(TimeoutError):
        await lose(mine, proxies["redis"], keys, within=1.5 * TTL)
