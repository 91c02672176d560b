"""The election, and how any holder is asked to go."""

from __future__ import annotations

import asyncio
from typing import Any

from aiodlock.client import LockClient
from aiodlock.errors import LockLostError
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.multi import KINDS
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_holder_of_any_kind_can_be_asked_to_go",
    "a_leader_that_is_cut_off_stops_before_the_next_one_leads",
    "one_leads_and_everybody_knows_who",
]


@check()
async def one_leads_and_everybody_knows_who(world: World) -> None:
    """The next one leads when the first steps down; in between and afterwards nobody does."""
    mine, other = await world.clients(2)
    elections = [client.election(world.key()) for client in (mine, other)]
    assert await elections[0].leader() is None
    async with elections[0].leadership() as first:
        successor = world.start(elections[1].leadership().acquire())
        await world.until_waiting(1)
        assert [await election.leader() for election in elections] == [mine.name] * 2
    second = await successor
    assert second.fence > first.fence
    assert [await election.leader() for election in elections] == [other.name] * 2
    await second.release()
    assert await elections[0].leader() is None


@check(needs="faults")
async def a_leader_that_is_cut_off_stops_before_the_next_one_leads(world: World) -> None:
    """Its block is cancelled by its own clock; then another one leads."""

    async def lead(client: LockClient) -> None:
        async with client.election(world.key(), ttl=world.ttl).leadership():
            order.append(f"{client.name} leads")
            try:
                await (world.sleep(0) if stopped else world.sleep(100 * world.ttl))
            finally:
                stopped.append(client.name)
                order.append(f"{client.name} stops")

    order, stopped = list[str](), list[str]()
    mine, other = await world.clients(2)
    first = world.start(lead(mine))
    await world.until(lambda: bool(order))
    second = world.start(lead(other))
    await world.until_waiting(1)
    world.trouble(mine).go_down()
    with raises(LockLostError):
        await first
    await second
    names = [mine.name, mine.name, other.name, other.name]
    assert order == [f"{name} {does}" for name, does in zip(names, ["leads", "stops"] * 2, strict=True)]
    world.trouble(mine).come_back()


@check()
async def a_holder_of_any_kind_can_be_asked_to_go(world: World) -> None:
    """It is told and holds on until it lets go; its ticket is then passed to nobody in its own client.

    Who cannot hear calls is not told: then nothing changes.
    """
    mine, other = await world.clients(2)
    for kind, make in KINDS.items():
        await _revoke(world, make(mine, world.key(kind)), make(other, world.key(kind)))


async def _revoke(world: World, mine: Any, other: Any) -> None:
    hold = await mine.acquire()
    assert not hold.revoked
    assert await other.revoke("maintenance") == 1
    if world.capabilities.pushes:
        await world.until(lambda: hold.revoked)
    hold.check()
    local = world.start(mine.acquire())
    await asyncio.sleep(0)
    await hold.release()
    next_ = await local
    assert not next_.revoked
    assert next_.fence >> 15 != hold.fence >> 15 or not hold.revoked
    await next_.release()
