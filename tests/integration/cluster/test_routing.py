"""Lines in a cluster: found by their slot, followed when it moves, called on a channel that moves with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis.crc import key_slot

from aiodlock._core.line import Called, Gone, Inside, LineId, Reconnected, Ticket, Waiting
from aiodlock.backends.redis.cluster_route import Cluster
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.servers import RedisCluster
from tests.integration.cluster.conftest import Member, elsewhere

Connect = Callable[..., Awaitable[Member]]
Make = Callable[..., Ticket]


def in_one_slot(count: int, slot: int) -> list[LineId]:
    """Return lines of one slot."""
    found: list[LineId] = []
    number = 0
    while len(found) < count:
        number += 1
        if key_slot(b"{%d}" % number) == slot:
            found.append(LineId("lock", str(number)))
    return found


async def test_lines_are_spread_over_the_masters_and_found_again(
    client: Member, other: Member, cluster: RedisCluster
) -> None:
    """Every verb of every client about a line goes to the same server."""
    tickets = [Ticket.of(LineId("lock", f"spread-{n}"), f"s{n}") for n in range(30)]  # type: ignore[arg-type]
    for one in tickets:
        assert isinstance(await client.backend.join(one), Inside)
        assert isinstance(await other.backend.join(one), Inside)
    answers = await other.backend.renew(tickets)
    assert all(isinstance(answer, Inside) for answer in answers)
    assert len({client.slot(one.line) // 5462 for one in tickets}) == 3
    rows = await client.backend.inspect("*", "spread-*")
    assert sorted(row.key for row in rows) == sorted(one.line.key for one in tickets)
    for one in tickets:
        await other.backend.leave(one)
    assert await client.backend.inspect("*", "spread-*") == []


async def test_a_call_is_heard_by_its_client_only(client: Member, other: Member, ticket: Make) -> None:
    holder, waiter = ticket(), ticket()
    await client.backend.join(holder)
    assert isinstance(await other.backend.join(waiter), Waiting)
    await client.told()
    await client.backend.leave(holder)
    assert [type(call) for call in await other.told()] == [Called]
    assert await client.told() == []


async def test_a_client_has_one_channel_per_slot_on_its_owner_alone(
    client: Member, cluster: RedisCluster, ticket: Make
) -> None:
    """However many lines it uses there; its name carries a hash tag of that slot."""
    lines = in_one_slot(3, 1234)
    for line in lines:
        await client.backend.join(ticket(line=line))
    channels = {client.channel(line) for line in lines}
    assert len(channels) == 1
    (channel,) = channels
    assert f"{{{lines[0].key}}}" in channel
    for node in cluster.nodes:
        subscribers = node.ask("PUBSUB", "SHARDNUMSUB", channel)
        assert subscribers == [channel.encode(), int(node is cluster.owner(1234))]


async def test_a_subscription_goes_ahead_of_the_first_join(connect: Connect, ticket: Make) -> None:
    """Whoever is answered `Waiting` is listening already."""
    first, second = await connect(), await connect()
    holder, waiter = ticket(), ticket()
    await first.backend.join(holder)
    joining = second.backend.join(waiter)
    leaving = asyncio.ensure_future(after(joining, lambda: first.backend.leave(holder)))
    await leaving
    assert [type(call) for call in await second.told()] == [Called]


async def after(first: Awaitable[object], then: Callable[[], Awaitable[object]]) -> None:
    await first
    await then()


# --- a slot moves --------------------------------------------------------------------------------------------------


async def test_a_line_moves_with_its_slot(
    client: Member, other: Member, cluster: RedisCluster, ticket: Make, line: LineId
) -> None:
    """Who is inside stays inside, who waits keeps its place, and hears its call from the new owner."""
    holder, waiter = ticket(), ticket()
    inside = await client.backend.join(holder)
    assert isinstance(inside, Inside)
    await other.backend.join(waiter)
    slot = client.slot(line)
    await asyncio.to_thread(cluster.move, slot, await elsewhere(cluster, slot))
    await other.looks_again()
    answer = await other.answer(waiter)
    assert isinstance(answer, Waiting)
    renewed = await client.answer(holder)
    assert isinstance(renewed, Inside)
    assert renewed.epoch == inside.epoch
    await client.told()
    await client.backend.leave(holder)
    (called,) = [call for call in await other.told() if isinstance(call, Called)]
    assert called.epoch > inside.epoch
    assert called.via == answer.via


async def test_who_waits_is_told_that_its_slot_has_moved(
    client: Member, other: Member, cluster: RedisCluster, ticket: Make, line: LineId
) -> None:
    """Without asking: by the old owner, which ends the subscription."""
    await client.backend.join(ticket())
    await other.backend.join(ticket())
    await other.told()
    slot = client.slot(line)
    await asyncio.to_thread(cluster.move, slot, await elsewhere(cluster, slot))
    await other.looks_again()
    assert Reconnected in {type(call) for call in await other.told()}


async def test_a_client_deaf_to_moved_slots_is_found(
    client: Member, other: Member, cluster: RedisCluster, ticket: Make, line: LineId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: it goes on believing that it listens, and never hears of the new owner's calls."""
    monkeypatch.setattr(Cluster, "_pushed", lambda self, spot, push, via: self._calls.pushed(push, via))
    holder, waiter = ticket(), ticket()
    await client.backend.join(holder)
    await other.backend.join(waiter)
    slot = client.slot(line)
    await asyncio.to_thread(cluster.move, slot, await elsewhere(cluster, slot))
    await client.backend.leave(holder)
    assert [call for call in await other.told() if isinstance(call, Called | Reconnected)] == []


async def test_between_two_owners_every_verb_works(
    client: Member, other: Member, cluster: RedisCluster, ticket: Make, line: LineId
) -> None:
    """`ASK`: before its key is carried over the line is served here, afterwards there, and it is one line."""
    holder, waiter, third = ticket(), ticket(), ticket()
    await client.backend.join(holder)
    slot = client.slot(line)
    target = await elsewhere(cluster, slot)
    moving = cluster.moving(slot, target)
    carry = await asyncio.to_thread(moving.__enter__)
    assert isinstance(await other.backend.join(waiter), Waiting)
    await asyncio.to_thread(carry)
    assert isinstance(await other.answer(waiter), Waiting)
    assert isinstance(await other.backend.join(third), Waiting)
    rows = await client.backend.inspect(*line)
    assert [row.id for row in rows] == [holder.id, waiter.id, third.id]
    await client.backend.leave(holder)
    assert [call.id for call in await other.told() if isinstance(call, Called)] == [waiter.id]
    await asyncio.to_thread(moving.__exit__, None, None, None)
    await client.backend.leave(waiter)
    assert isinstance(await other.answer(third), Inside)
    assert await asyncio.to_thread(cluster.owner, slot) is target


async def test_a_new_line_between_two_owners_is_made_at_the_new_one(
    client: Member, cluster: RedisCluster, ticket: Make, line: LineId
) -> None:
    slot = client.slot(line)
    target = await elsewhere(cluster, slot)
    with cluster.moving(slot, target):
        mine = ticket()
        assert isinstance(await client.backend.join(mine), Inside)
        assert target.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 1
    assert isinstance(await client.answer(mine), Inside)


async def test_a_command_sent_round_in_circles_fails_in_time(
    connect: Connect, cluster: RedisCluster, ticket: Make, line: LineId
) -> None:
    """Two servers that send to each other: whoever waits gets an error that means: again, later."""
    client = await connect()
    slot = client.slot(line)
    here, there = await asyncio.to_thread(cluster.owner, slot), await elsewhere(cluster, slot)
    here.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", there.id)  # and the other one was not told
    with pytest.raises(BackendUnavailableError, match="from server to server"):
        await client.backend.join(ticket())
    here.ask("CLUSTER", "SETSLOT", slot, "STABLE")
    assert isinstance(await client.backend.join(ticket()), Inside)


# --- opening and closing -------------------------------------------------------------------------------------------


async def test_connections_are_made_to_the_masters_that_are_used(
    connect: Connect, cluster: RedisCluster, ticket: Make, line: LineId
) -> None:
    client = await connect()
    await client.backend.join(ticket())
    route = client.backend._route
    assert isinstance(route, Cluster)
    owner = await asyncio.to_thread(cluster.owner, client.slot(line))
    assert [spot[1] for spot in route._members] == [owner.port]


async def test_closing_leaves_no_connection(connect: Connect, cluster: RedisCluster, ticket: Make) -> None:
    client = await connect()
    await client.backend.ping()
    route = client.backend._route
    assert isinstance(route, Cluster)
    nodes = [member.node for member in route._members.values()]
    assert len(nodes) == 3
    await client.backend.aclose()
    assert not any(node.is_up for node in nodes)
    with pytest.raises(BackendUnavailableError, match="no server"):
        await client.backend.join(ticket())


async def test_one_seed_that_answers_is_enough(connect: Connect, cluster: RedisCluster, ticket: Make) -> None:
    """A dead one before it, and a replica."""
    replica = next(node for node in cluster.nodes if not node.is_master)
    client = await connect(f"redis+cluster://127.0.0.1:1,127.0.0.1:{replica.port}")
    assert isinstance(await client.backend.join(ticket()), Inside)


async def test_a_ticket_gone_is_gone_everywhere(client: Member, other: Member, ticket: Make) -> None:
    mine = ticket()
    await client.backend.leave(mine, bury=True)
    assert isinstance(await other.backend.join(mine), Gone)
