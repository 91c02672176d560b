"""What the server pays: commands of a join, growth with the line, scripts that it forgot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock._core.line import Inside, LineId, Ticket, TicketId, Waiting
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis import backend as backend_module
from aiodlock.backends.redis.scripts import Script
from aiodlock.testing.servers import RedisServer
from tests.acceptance import acceptance
from tests.integration.redis.conftest import Client

_new_ids = (TicketId(f"n{number}") for number in count(1))
Make = Callable[..., Ticket]
Connect = Callable[..., Awaitable[Client]]


async def commands(client: Client) -> dict[str, int]:
    """Return how often each command was called, also inside scripts."""
    lines = (await client.do("INFO", "commandstats")).decode().split("\r\n")
    stats = (line.removeprefix("cmdstat_").split(":calls=") for line in lines if ":calls=" in line)
    return {name: int(rest.split(",")[0]) for name, rest in stats}


async def counted(client: Client, verb: Callable[[], Awaitable[object]]) -> dict[str, int]:
    before = await commands(client)
    await verb()
    after = await commands(client)
    counts = {name: number - before.get(name, 0) for name, number in after.items() if name != "info"}
    return {name: number for name, number in counts.items() if number}


# --- commands ----------------------------------------------------------------------------------------------


async def test_an_uncontended_join_and_leave_are_one_command_each_and_few_inside(client: Client, ticket: Make) -> None:
    warm, mine = ticket(), ticket(ttl=20.0, line=LineId("lock", "uncontended"))
    await client.backend.join(warm)
    await client.backend.leave(warm)
    joined = await counted(client, lambda: client.backend.join(mine))
    assert joined == {"evalsha": 1, "time": 1, "hget": 1, "hset": 1, "pexpireat": 1}
    left = await counted(client, lambda: client.backend.leave(mine))
    assert left == {"evalsha": 1, "time": 1, "hget": 1, "hset": 1, "hdel": 1}


async def test_handing_over_to_the_only_one_who_waits_touches_one_field(
    client: Client, connect: Connect, ticket: Make
) -> None:
    line = LineId("lock", "handed over")
    holder, waiter, back = (ticket(ttl=20.0, line=line) for _ in range(3))
    one, two = await connect(), await connect()
    await client.backend.leave(ticket())  # the server knows the script from now on
    await one.backend.join(holder)
    joined = await counted(client, lambda: two.backend.join(waiter))
    assert joined == {"evalsha": 1, "time": 1, "hget": 1, "hset": 1, "publish": 1}
    await one.told()  # who has heard something sends a PING ahead once
    left = await counted(client, lambda: one.backend.leave(holder))
    assert left == {"evalsha": 1, "time": 1, "hget": 1, "hdel": 1, "hset": 1, "publish": 1}
    await one.backend.join(back)
    assert await client.do("HKEYS", client.key(line)) == [b"line"]


async def test_an_uncontended_join_of_a_hashed_key_makes_at_most_six_calls(client: Client, ticket: Make) -> None:
    mine = ticket(line=LineId("lock", "k" * 200))
    await client.backend.join(ticket())
    joined = await counted(client, lambda: client.backend.join(mine))
    assert sum(joined.values()) - joined["evalsha"] <= 6


async def test_looking_at_one_lock_searches_for_nothing_whatever_its_key_contains(
    client: Client, server: RedisServer
) -> None:
    async with aiodlock.connect(server.url) as locks:

        async def look() -> None:
            for key in ("plain", "odd[1]", "odd*", "odd?"):
                async with locks.lock(key):
                    assert await locks.lock(key).locked()
                    assert await locks.lock(key).holder() == locks.name
                await locks.lock(key).force_release()

        assert "scan" not in await counted(client, look)


@acceptance(25)
async def test_a_client_has_one_subscription_whatever_it_does(client: Client, server: RedisServer) -> None:
    """Five thousand visits to five keys, by fifty tasks of each of two clients."""
    before = {*await client.do("PUBSUB", "CHANNELS")}

    async def visit(locks: LockClient) -> None:
        for number in range(50):
            async with locks.lock(f"subscription-{number % 5}"):
                pass

    async with aiodlock.connect(server.url) as one, aiodlock.connect(server.url) as two:
        backends = [locks.backend for locks in (one, two)]
        channels = {backend._calls.channel for backend in backends if isinstance(backend, RedisBackend)}
        await asyncio.gather(*(visit(locks) for locks in (one, two) for _ in range(50)))
        assert len(channels) == 2
        assert {*await client.do("PUBSUB", "CHANNELS")} - before == channels
    await until_none(client, channels)


async def until_none(client: Client, channels: set[bytes]) -> None:
    """Return when nobody listens to *channels* any more."""
    async with asyncio.timeout(5.0):
        while not channels.isdisjoint(await client.do("PUBSUB", "CHANNELS")):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_thousands_who_wait_are_renewed_in_few_calls(client: Client, ticket: Make) -> None:
    tickets = [ticket(f"r{i}") for i in range(1000)]
    await asyncio.gather(*(client.backend.join(one) for one in tickets))
    await client.backend.renew(tickets[:1])
    renewed = await counted(client, lambda: client.backend.renew(tickets))
    assert renewed["evalsha"] == 10


# --- growth ------------------------------------------------------------------------------------------------


async def cpu(client: Client) -> float:
    """Return the seconds that the server has worked on commands."""
    lines = (await client.do("INFO", "cpu")).decode().split("\r\n")
    return sum(float(line.split(":")[1]) for line in lines if "main_thread:" in line)


async def cost(client: Client, waiting: list[Ticket], rounds: int) -> float:
    """Return the server's seconds per join at the end and leave from the front, the middle and the end of this line."""
    before = await cpu(client)
    for number in range(rounds):
        waiting.append(replace(waiting[0], id=next(_new_ids)))
        await client.backend.join(waiting[-1])
        await client.backend.leave(waiting.pop((0, len(waiting) // 2, -1)[number % 3]))
    return (await cpu(client) - before) / rounds


async def line_of(client: Client, ticket: Make, length: int, **facts: object) -> list[Ticket]:
    tickets = [ticket(ttl=600.0, **facts) for _ in range(length)]
    answers = await asyncio.gather(*(client.backend.join(one) for one in tickets))
    assert all(isinstance(answer, Inside | Waiting) for answer in answers)
    return tickets


async def growth(client: Client, ticket: Make, *, rounds: int) -> float:
    """Return what joining and leaving cost with ten thousand in line, in terms of what they cost with ten."""
    short = await line_of(client, ticket, 10, line=LineId("lock", "short"))
    long = await line_of(client, ticket, 10_000, line=LineId("lock", "long"))
    costs = [(await cost(client, short, rounds), await cost(client, long, rounds)) for _ in range(2)]
    small, large = map(min, zip(*costs, strict=True))
    return large / small


async def test_a_line_of_ten_thousand_costs_no_more_than_three_times_one_of_ten(ticket: Make, connect: Connect) -> None:
    with RedisServer() as own:
        client = await connect(own.url, patience=30.0)
        assert await growth(client, ticket, rounds=300) <= 3.0
        await client.backend.aclose()


async def test_a_script_that_reads_the_whole_line_is_found(
    ticket: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    leave = backend_module._LEAVE
    worse = Script.of("leave", leave.text.replace("  sweep()\n", "  redis.call('HGETALL', KEY)\n  sweep()\n"))
    assert worse.text != leave.text
    monkeypatch.setattr(backend_module, "_LEAVE", worse)
    with RedisServer() as own:
        client = await connect(own.url, patience=30.0)
        assert await growth(client, ticket, rounds=30) > 3.0
        await client.backend.aclose()


# --- forgotten scripts -------------------------------------------------------------------------------------


async def test_scripts_are_loaded_once_when_the_server_has_forgotten_them(client: Client, ticket: Make) -> None:
    """However many commands meet the gap; none is lost, none is done twice."""
    tickets = [ticket(size=1000) for _ in range(50)]
    await client.do("SCRIPT", "FLUSH")
    before = await commands(client)
    answers = await asyncio.gather(*(client.backend.join(one) for one in tickets))
    after = await commands(client)
    assert all(isinstance(answer, Inside) for answer in answers)
    assert after["script|load"] - before.get("script|load", 0) == 1
    assert len({answer.epoch for answer in answers if isinstance(answer, Inside)}) == 50


async def test_a_flush_at_any_time_is_survived(client: Client, other: Client, ticket: Make) -> None:
    async def flush() -> None:
        for _ in range(30):
            await other.do("SCRIPT", "FLUSH")

    async def work() -> None:
        for _ in range(30):
            mine = ticket(size=1000)
            assert isinstance(await client.backend.join(mine), Inside)
            assert isinstance(await client.answer(mine), Inside)
            await client.backend.leave(mine)

    await asyncio.gather(flush(), *(work() for _ in range(5)))
