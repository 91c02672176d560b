"""Stock on a bad day: replies lost, requests late, processes killed. The books balance, order by order."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

import aiodlock
from aiodlock import Returned, SegmentedStock, Taken
from aiodlock._core.stock import Move
from aiodlock.backends.redis.scripts import load
from aiodlock.testing.history import Event, check_conservation
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
from tests.integration.shops import close_the_books, rush, shop_in_a_process, stock_of

_numbers = itertools.count(1)


@pytest.fixture
def key() -> str:
    return f"faulty-{next(_numbers)}"


@pytest.fixture
async def stock(proxy: FaultProxy, key: str) -> AsyncIterator[SegmentedStock]:
    """A stock behind the proxy."""
    async with aiodlock.connect(f"redis://127.0.0.1:{proxy.port}/0") as locks:
        yield locks.stock(key, segments=4, outbox=True, patience=20.0)


@pytest.mark.parametrize("every", [1, 2, 3, 7])
async def test_replies_lost_at_every_kth_command(proxy: FaultProxy, stock: SegmentedStock, every: int) -> None:
    """Each order that was accepted was taken once; everything is sold; the outbox tells of each once."""
    await stock.load(60)
    rule = proxy.drop_reply(match=load("take").sha.encode(), every=every, times=5)

    async def buy(number: int) -> bool:
        return isinstance(await stock.take(buyer=f"b{number}", order=f"o{number}"), Taken)

    accepted = await rush(buy, orders=90, lanes=3)
    assert rule.done >= 4
    left = (await stock.remaining()).segments
    assert check_conservation(60, accepted=[(f"o{n}", 1) for n in accepted], left=left) == []
    assert len(accepted) == 60
    audit = await stock.audit()
    assert audit.is_balanced
    entries = await stock._room.outbox("", 1000)
    told = [one.order for entry in entries for one in entry.movements if one.move is Move.TAKEN]  # type: ignore[union-attr]
    assert sorted(told) == sorted(f"o{n}" for n in accepted)


async def test_a_plain_decrement_with_retry_is_caught(proxy: FaultProxy, server: RedisServer, key: str) -> None:
    """The broken twin: the same rush, the same lost replies, and articles are gone that nobody has."""
    decrement = "if tonumber(redis.call('GET', KEYS[1])) > 0 then redis.call('DECR', KEYS[1]) return 1 end return 0"
    quick = Retry(NoBackoff(), 10, supported_errors=(RedisConnectionError,))
    async with (
        Redis(port=proxy.port, retry=quick, protocol=2) as behind,
        Redis(port=server.port, protocol=2) as straight,
    ):
        await straight.set(key, 60)
        proxy.drop_reply(match=b"DECR", every=3, times=10)

        async def buy(number: int) -> bool:
            return bool(await behind.eval(decrement, 1, key))

        accepted = await rush(buy, orders=90, lanes=3)
        left = int(await straight.get(key) or 0)
    found = check_conservation(60, accepted=[(f"o{n}", 1) for n in accepted], left=[left])
    assert [violation.rule for violation in found] == ["not conserved"]


async def test_a_take_that_arrives_after_its_put_back_takes_nothing(
    proxy: FaultProxy, server: RedisServer, stock: SegmentedStock
) -> None:
    """Held back in the network while the buyer gives up and puts it back over another connection."""
    await stock.load(5)
    held = proxy.hold_back(match=load("take").sha.encode())
    taking = asyncio.create_task(stock.take(buyer="ann", order="o-1"))
    await asyncio.to_thread(held.wait, within=10)
    taking.cancel()
    async with aiodlock.connect(server.url) as locks:
        theirs = locks.stock(stock.key, segments=4, outbox=True)
        assert await theirs.put_back(buyer="ann", order="o-1") == Returned(0)
        held.deliver()
        assert await stock.take(buyer="ann", order="o-1") == Returned(0)
        assert (await theirs.remaining()).total == 5
        assert (await theirs.audit()).is_balanced


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(2))
async def test_workers_killed_at_random(server: RedisServer, key: str, seed: int) -> None:
    """Every order in doubt is asked for again, by another process; then all are known, and the books balance."""
    await kill_workers(server.url, key, random.Random(seed))


async def kill_workers(url: str, key: str, dice: random.Random) -> None:
    """Sell in eight processes, kill four of them, ask for what is in doubt, and check the books."""
    async with aiodlock.connect(url) as locks:
        stock = stock_of(locks, key)
        await stock.load(600)
        events = await asyncio.to_thread(_kill_some, url, key, dice)
        assert await close_the_books(stock, 600, events) > 100


def _kill_some(url: str, key: str, dice: random.Random) -> list[Event]:
    """Run eight shops and kill half of them in the middle of their work."""
    with ExitStack() as stack:
        shops = [stack.enter_context(shop_in_a_process(n, url=url, key=key, orders=150)) for n in range(8)]
        for worker in shops[:4]:
            worker.await_event("answered", within=30, count=dice.randrange(1, 120))
            worker.kill()
        for worker in shops[4:]:
            worker.join(within=40)
    return [event for worker in shops for event in worker.events()]
