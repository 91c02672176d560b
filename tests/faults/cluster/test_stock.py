"""A stock spread over a cluster on a bad day: replies lost, slots on the move, a master dead. The books balance."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis.crc import key_slot

import aiodlock
from aiodlock import SegmentedStock, Taken
from aiodlock._core.line import LineId
from aiodlock._core.stock import Move, Take
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.scripts import load
from aiodlock.backends.redis.segment import RedisSegment
from aiodlock.testing.history import Violation, check_conservation
from aiodlock.testing.servers import RedisCluster
from tests.faults.cluster.servers import cut_off_replicas, fail_over, proxied, stop_writes
from tests.integration.redis.test_stock_faults import kill_workers

SEGMENTS = 6
_keys = map("spread-{}".format, itertools.count(1))


def slots_of(key: str) -> list[int]:
    """Return the slot of each segment."""
    return [key_slot(Keys().segment(LineId("stock", key), number)) for number in range(SEGMENTS)]


@dataclass
class Rush:
    """Buyers, some at a time."""

    stock: SegmentedStock
    accepted: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _grown: asyncio.Event = field(default_factory=asyncio.Event)

    async def sell(self, orders: int, *, lanes: int = 6) -> None:
        """Let so many orders through; every fifth goes back."""

        async def lane() -> None:
            for number in itertools.takewhile(lambda number: number < last, self._numbers):
                await self._buy(number, goes_back=number % 5 == 0)

        last = next(self._numbers) + orders
        await asyncio.gather(*(lane() for _ in range(lanes)))

    async def sell_out(self) -> None:
        """Let orders through that stay, until nothing is left: the last of the others may have been put back."""
        for _ in range(20):
            if not sum((await self.stock.remaining()).segments):
                return
            await self._buy(next(self._numbers), goes_back=False)

    async def turn_over(self, until: asyncio.Event, *, lanes: int = 6) -> None:
        """Take and put back, again and again."""

        async def lane() -> None:
            while not until.is_set():
                await self._buy(next(self._numbers), goes_back=True)

        await asyncio.gather(*(lane() for _ in range(lanes)))

    async def _buy(self, number: int, *, goes_back: bool) -> None:
        who = {"buyer": f"b-{number}", "order": f"o-{number}"}
        if not isinstance(await self.stock.take(**who), Taken):
            return
        self.accepted.append(who["order"])
        self._grown.set()
        if goes_back:
            await self.stock.put_back(**who)
            self.returned.append(who["order"])

    async def have_accepted(self, count: int) -> None:
        while len(self.accepted) < count:
            self._grown.clear()
            await self._grown.wait()

    async def judge(self, loaded: int) -> list[Violation]:
        left = (await self.stock.remaining()).segments
        accepted, returned = ([(order, 1) for order in orders] for orders in (self.accepted, self.returned))
        return check_conservation(loaded, accepted=accepted, returned=returned, left=left)


async def lose_replies(cluster: RedisCluster, *, every: int) -> tuple[Rush, list[Violation]]:
    """Sell 60 while every so-manieth reply of each script is lost, at every server."""
    with proxied(cluster) as (client, proxies):
        async with client as locks:
            rush = Rush(locks.stock(next(_keys), segments=SEGMENTS, outbox=True, patience=30.0))
            await rush.stock.load(60)
            scripts = [load(name).sha.encode() for name in ("take", "segment", "claim", "put_back")]
            rules = [proxy.drop_reply(match=sha, every=every, times=3) for proxy in proxies for sha in scripts]
            await rush.sell(90)
            await rush.sell_out()
            assert sum(rule.done for rule in rules) >= 9
            return rush, await rush.judge(60)


@pytest.mark.parametrize("every", [1, 3, 7])
async def test_replies_lost_at_every_kth_command(cluster: RedisCluster, every: int) -> None:
    """Each order that was accepted was taken once; everything is sold; the outboxes tell of each movement once."""
    rush, found = await lose_replies(cluster, every=every)
    assert found == []
    assert len(rush.accepted) - len(rush.returned) == 60
    async with aiodlock.connect(cluster.url) as locks:
        stock = locks.stock(rush.stock.key, segments=SEGMENTS, outbox=True)
        assert (await stock.audit()).is_balanced
        moves = [one for entry in await stock.read_outbox(most=1000) for one in entry.movements]
    assert sorted(one.order for one in moves if one.move is Move.TAKEN) == sorted(rush.accepted)
    assert sorted(one.order for one in moves if one.move is Move.RETURNED) == sorted(rush.returned)


async def test_an_order_that_gets_a_new_id_whenever_it_is_sent_is_caught(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: articles are gone that nobody has."""
    take, numbers = RedisSegment.take, itertools.count()

    def under_a_new_id(self: RedisSegment, takes: Sequence[Take], arrivals: Any) -> Any:
        return take(self, [one._replace(order=f"{one.order}/{next(numbers)}") for one in takes], arrivals)

    monkeypatch.setattr(RedisSegment, "take", under_a_new_id)
    _, found = await lose_replies(cluster, every=3)
    assert "not conserved" in [violation.rule for violation in found]


async def under_load(
    cluster: RedisCluster, trouble: Callable[[str], None], **settings: int
) -> tuple[Rush, list[Violation]]:
    """Take and put back while *trouble* is made, in a thread, with the servers of the key; then sell all of it."""
    async with aiodlock.connect(cluster.url, **settings) as locks:
        rush, is_over = Rush(locks.stock(next(_keys), segments=SEGMENTS, outbox=True, patience=60.0)), asyncio.Event()
        await rush.stock.load(40)
        turning = asyncio.ensure_future(rush.turn_over(is_over))
        await rush.have_accepted(30)
        await asyncio.to_thread(trouble, rush.stock.key)
        await rush.have_accepted(len(rush.accepted) + 30)
        is_over.set()
        await turning
        await rush.sell(100)
        found = await rush.judge(40)
        assert (await rush.stock.audit()).is_balanced == (found == [])
        return rush, found


async def test_segments_are_on_several_servers(cluster: RedisCluster) -> None:
    """That is what it is for."""
    key = next(_keys)
    async with aiodlock.connect(cluster.url) as locks:
        await locks.stock(key, segments=SEGMENTS).load(10)
    assert len({cluster.owner(slot).port for slot in slots_of(key)}) > 1


async def test_slots_move_under_load(cluster: RedisCluster) -> None:
    """Segment 0 and others go to another master and back, in two steps each, while orders are taken."""

    def move(key: str) -> None:
        for slot in slots_of(key)[:3]:
            home = cluster.owner(slot)
            away = next(node for node in cluster.masters() if node is not home)
            for target in (away, home):
                with cluster.moving(slot, target) as carry:
                    carry()

    rush, found = await under_load(cluster, move)
    assert found == []
    assert len(rush.accepted) - len(rush.returned) == 40


async def test_a_failover_that_loses_no_answered_write_is_survived(own_cluster: RedisCluster) -> None:
    """The master of segment 0 dies; who asked it asks again, and then the books agree."""

    def kill(key: str) -> None:
        master = own_cluster.owner(slots_of(key)[0])
        stop_writes(master)
        fail_over(own_cluster, master)

    rush, found = await under_load(own_cluster, kill)
    assert found == []
    assert len(rush.accepted) - len(rush.returned) == 40


async def test_a_failover_in_full_flight_loses_nothing_that_a_replica_has_confirmed(own_cluster: RedisCluster) -> None:
    """With `min_replicas` nobody is told yes before a replica knows of it."""

    def kill(key: str) -> None:
        master = own_cluster.owner(slots_of(key)[0])
        fail_over(own_cluster, master)
        master.start()  # now the replica that confirms
        own_cluster.await_well()

    rush, found = await under_load(own_cluster, kill, min_replicas=1)
    assert found == []
    assert len(rush.accepted) - len(rush.returned) == 40


async def test_a_failover_that_loses_answered_writes_loses_orders(own_cluster: RedisCluster) -> None:
    """What is not promised, and the twin of the test above: orders were told yes, and nobody knows of them."""

    async with aiodlock.connect(own_cluster.url) as locks:
        rush = Rush(locks.stock(next(_keys), segments=SEGMENTS, patience=60.0))
        await rush.stock.load(300)
        master = own_cluster.owner(slots_of(rush.stock.key)[0])
        await asyncio.to_thread(cut_off_replicas, master)
        await rush.sell(120)
        await asyncio.to_thread(fail_over, own_cluster, master)
        assert "not conserved" in [violation.rule for violation in await rush.judge(300)]


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(2))
async def test_workers_killed_at_random(cluster: RedisCluster, seed: int) -> None:
    """With articles on their way, and orders whose answer nobody heard: asked for again, and the books balance."""
    await kill_workers(cluster.url, next(_keys), random.Random(seed))
