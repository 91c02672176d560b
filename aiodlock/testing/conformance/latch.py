"""The latch: opens for everybody when it has been counted down, and stays open."""

from __future__ import annotations

import asyncio

from aiodlock.errors import AcquireTimeoutError, ClientClosedError
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_latch_is_counted_by_any_number_and_never_below_zero",
    "a_latch_lives_as_long_as_somebody_waits",
    "a_latch_that_opened_during_an_outage_is_noticed",
    "a_step_whose_answer_is_lost_counts_once",
    "closing_tells_who_waits_for_a_latch",
    "everybody_who_waits_is_let_through_at_zero",
    "waiting_for_a_latch_is_limited",
]


@check(48)
async def everybody_who_waits_is_let_through_at_zero(world: World) -> None:
    """Many tasks of many clients, woken by the last step and by no other; whoever comes later goes straight on."""
    clients = await world.clients(3)
    latches = [client.latch(world.key(), count=3) for client in clients]
    waiters = [world.start(latch.opened()) for latch in latches for _ in range(5)]
    await world.until(lambda: _count_is(latches[0], 3))
    assert await latches[0].count_down() == 2
    assert await latches[1].count_down() == 1
    await world.sleep(world.soon() / 2)
    assert not any(waiter.done() for waiter in waiters)
    assert await latches[2].count_down() == 0
    began = world.now
    await asyncio.gather(*waiters)
    assert world.now - began <= world.soon()
    for latch in latches:
        await latch.opened(0)
        assert await latch.count() == 0


@check()
async def a_latch_is_counted_by_any_number_and_never_below_zero(world: World) -> None:
    """Steps of several at once; further ones change nothing."""
    latch = (await world.client()).latch(world.key(), count=5)
    assert await latch.count() == 5
    assert await latch.count_down(2) == 3
    assert await latch.count_down(7) == 0
    assert await latch.count_down() == 0
    await latch.opened(0)


@check()
async def waiting_for_a_latch_is_limited(world: World) -> None:
    """The error comes in time; with 0 there is one look; giving up harms nobody else."""
    mine, other = await world.clients(2)
    latch = mine.latch(world.key(), count=1, ttl=world.ttl)
    patient = world.start(other.latch(world.key(), count=1, ttl=world.ttl).opened())
    cancelled = world.start(latch.opened())
    began = world.now
    with raises(AcquireTimeoutError):
        await latch.opened(0)
    assert world.now - began <= world.slack
    with raises(AcquireTimeoutError) as raised:
        await latch.opened(0.3 * world.ttl)
    assert 0.3 * world.ttl <= world.now - began + 0.001 <= 0.3 * world.ttl + 2 * world.slack
    assert raised.error.waited == 0.3 * world.ttl
    cancelled.cancel()
    await asyncio.wait({cancelled})
    await latch.count_down()
    await patient


@check()
async def a_latch_lives_as_long_as_somebody_waits(world: World) -> None:
    """Far beyond its ttl; left alone it is forgotten, and begins anew."""
    mine, other = await world.clients(2)
    ttl = 3 * world.ttl  # looks keep it alive, and may come late
    latch = mine.latch(world.key(), count=2, ttl=ttl)
    assert await latch.count_down() == 1
    waiter = world.start(other.latch(world.key(), count=2, ttl=ttl).opened())
    await world.sleep(1.5 * ttl)
    assert not waiter.done()
    assert await latch.count_down() == 0
    await waiter
    await world.sleep(ttl + world.slack)
    assert await latch.count() == 2


@check(needs="faults")
async def a_step_whose_answer_is_lost_counts_once(world: World) -> None:
    """It is asked again under the same operation, and answers the same."""
    client = await world.client()
    latch = client.latch(world.key(), count=3, ttl=world.ttl)
    world.trouble(client).drop_reply("latch", times=2)
    assert await latch.count_down() == 2
    world.trouble(client).drop_request("latch")
    assert await latch.count_down() == 1
    assert await latch.count() == 1


@check(needs="faults")
async def a_latch_that_opened_during_an_outage_is_noticed(world: World) -> None:
    """The call went out while the connection was away: who waits looks when it is back."""
    mine, other = await world.clients(2)
    waiter = world.start(mine.latch(world.key(), count=1).opened())
    latch = other.latch(world.key(), count=1)
    await world.until(lambda: _count_is(latch, 1))
    await world.sleep(world.slack)
    world.trouble(mine).go_down()
    await latch.count_down()
    world.trouble(mine).come_back()
    began = world.now
    await waiter
    assert world.now - began <= 1.0 + world.slack


@check()
async def closing_tells_who_waits_for_a_latch(world: World) -> None:
    """They get an error, and the latch itself is not touched."""
    mine, other = await world.clients(2)
    waiter = world.start(mine.latch(world.key(), count=1).opened())
    latch = other.latch(world.key(), count=1)
    await world.until(lambda: _count_is(latch, 1))
    await mine.aclose()
    with raises(ClientClosedError):
        await waiter
    assert await latch.count() == 1


async def _count_is(latch: object, count: int) -> bool:
    return await latch.count() == count  # type: ignore[attr-defined,no-any-return]
