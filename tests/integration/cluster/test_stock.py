"""A stock in a cluster: where it is kept, what becomes of it when it is closed, what its segments tell each other."""

from __future__ import annotations

import asyncio
import itertools
import time

from redis.crc import key_slot

import aiodlock
from aiodlock import SegmentedStock, SoldOut, Taken
from aiodlock._core.line import LineId
from aiodlock._core.segment import Arrivals
from aiodlock._core.spread import SpreadStockroom
from aiodlock.backends.redis.keys import Keys
from aiodlock.testing.servers import RedisCluster

_keys = map("shop-{}".format, itertools.count(1))


async def buy_all(stock: SegmentedStock, *, first: int = 0) -> int:
    """Buy one after the other until there is nothing left; return how many there were."""
    for number in itertools.count():
        sale = await stock.take(buyer=f"b-{first + number}", order=f"o-{first + number}")
        if isinstance(sale, SoldOut):
            return number
        assert isinstance(sale, Taken)
    raise AssertionError


async def test_a_closed_stock_is_forgotten_by_all_segments_and_begins_anew(cluster: RedisCluster) -> None:
    """Articles that moved between segments in its former life are neither missing nor there twice."""
    key = next(_keys)
    register = Keys().segment(LineId("stock", key), 0).decode()
    async with aiodlock.connect(cluster.url) as locks:
        stock = locks.stock(key, segments=4, memory=1.0)
        await stock.load(20)
        assert await buy_all(stock) == 20
        await stock.add(8)
        await stock.close()
        await asyncio.to_thread(_await_end, cluster, register)
        assert await stock.load(9)
        assert (await stock.remaining()).total == 9
        assert await buy_all(stock, first=100) == 9
        assert (await stock.audit()).is_balanced


async def test_what_is_on_its_way_is_brought_home_by_anybody(cluster: RedisCluster) -> None:
    """Whoever sent it has died; told late, twice, or of a stock that is forgotten, it does not come again."""
    async with aiodlock.connect(cluster.url) as locks:
        stock = locks.stock(next(_keys), segments=3)
        await stock.load(3)
        room = stock._room
        assert isinstance(room, SpreadStockroom)
        first, second, third = room._segments
        assert await second.send(0, 5) == 1
        assert await third.send(1, 5) == 1
        assert [(await one.look()).left for one in room._segments] == [1, 0, 0]  # type: ignore[union-attr]
        assert (await stock.remaining()).segments == (2, 1, 0)
        born = (await first.look()).born  # type: ignore[union-attr]
        await first.arrive(Arrivals(born, ((1, 1),)))
        await first.arrive(Arrivals(born - 1, ((1, 9),)))  # of a former life
        assert (await stock.remaining()).segments == (2, 1, 0)
        assert await buy_all(stock) == 3
        assert (await stock.audit()).is_balanced


def _await_end(cluster: RedisCluster, key: str) -> None:
    """Return when the server that keeps *key* has forgotten it."""
    master = cluster.owner(key_slot(key.encode()))
    while master.ask("EXISTS", key):
        time.sleep(0.1)
