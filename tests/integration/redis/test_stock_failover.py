"""Stock and a failover: what was accepted with `min_replicas` is there on the new master; without, it may be gone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

import aiodlock
from aiodlock import Taken
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.history import check_conservation
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisReplica, RedisServer, SentinelService, require

pytestmark = pytest.mark.timeout(120)  # who is not answered waits for all of his patience

_keys = map("failover-{}".format, itertools.count(1))


@pytest.fixture
def master() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer(arguments=("--repl-ping-replica-period", "1")) as running:
        yield running


async def sell_while_copying_is_cut(master: RedisServer, *, min_replicas: int) -> tuple[list[str], int]:
    """Sell, cut the copying, sell on, promote the replica; return who was told yes, and what the new master knows."""
    key, accepted = next(_keys), list[str]()
    with FaultProxy(master.port) as copying, RedisReplica(of=copying.port) as replica:
        async with aiodlock.connect(master.url, min_replicas=min_replicas, patience=1.5) as locks:
            stock = locks.stock(key, segments=3, patience=8.0)

            async def buy(number: int) -> None:
                if isinstance(await stock.take(buyer=f"b-{number}", order=f"o-{number}"), Taken):
                    accepted.append(f"o-{number}")

            await stock.load(100)
            await asyncio.gather(*(buy(number) for number in range(20)))
            await asyncio.to_thread(copying.half_open)
            told = await asyncio.gather(*(buy(number) for number in range(20, 40)), return_exceptions=True)
            assert all(isinstance(one, BackendUnavailableError) for one in told) == bool(min_replicas)
        if min_replicas:  # nor is it told over a connection that has written nothing itself
            async with aiodlock.connect(master.url, min_replicas=min_replicas, patience=1.5) as locks:
                with pytest.raises(BackendUnavailableError):
                    await locks.stock(key, segments=3, patience=1.0).take(buyer="b-20", order="o-20")
        await asyncio.to_thread(master.crash)
        await asyncio.to_thread(replica.promote)
        async with aiodlock.connect(replica.url) as locks:
            audit = await locks.stock(key, segments=3).audit()
            assert audit.is_balanced
    return accepted, audit.accepted


async def test_what_replicas_have_confirmed_is_not_lost(master: RedisServer) -> None:
    """Nobody was told yes whose order is gone; who was not answered has to ask again."""
    accepted, known = await sell_while_copying_is_cut(master, min_replicas=1)
    assert len(accepted) == 20 <= known


async def test_without_confirmation_accepted_orders_are_lost(master: RedisServer) -> None:
    """The broken twin, and what is not promised: forty were told yes, the new master knows of fewer."""
    accepted, known = await sell_while_copying_is_cut(master, min_replicas=0)
    assert len(accepted) == 40 > known


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_failover_under_load_balances() -> None:
    """The master dies in the middle of the rush; every order in doubt is asked for again, and then the books agree."""
    require(RedisServer)
    with SentinelService() as service:
        async with aiodlock.connect(service.url, min_replicas=1) as locks:
            stock = locks.stock(next(_keys), segments=3, patience=40.0)
            await stock.load(300)
            accepted: list[tuple[str, int]] = []

            async def lane(numbers: Iterator[int]) -> None:
                for number in numbers:
                    if isinstance(await stock.take(buyer=f"b-{number}", order=f"o-{number}"), Taken):
                        accepted.append((f"o-{number}", 1))
                    await asyncio.sleep(0.01)

            numbers = iter(range(400))
            lanes = [asyncio.create_task(lane(numbers)) for _ in range(5)]
            while len(accepted) < 50:  # noqa: ASYNC110 (the rush has begun)
                await asyncio.sleep(0.01)
            await asyncio.to_thread(service.master.crash)
            await asyncio.gather(*lanes)
            left = (await stock.remaining()).segments
            assert check_conservation(300, accepted=accepted, left=left) == []
            assert (await stock.audit()).is_balanced
    assert len(accepted) == 300
