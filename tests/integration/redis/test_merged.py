"""Verbs of one tick travel as one call of their script, and are as independent as if each had travelled alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from aiodlock._core.line import Inside, LineId, Ticket
from aiodlock.backends.redis import backend as backend_module
from aiodlock.backends.redis.scripts import Script
from aiodlock.errors import BackendDataError
from tests.integration.redis.conftest import Client
from tests.integration.redis.test_cost import counted

_lines = count(1)
Make = Callable[..., Ticket]
Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
def tickets(ticket: Make) -> list[Ticket]:
    """Ten tickets, each in a line of its own."""
    return [ticket(line=LineId("lock", f"merged-{next(_lines)}")) for _ in range(10)]


def at_once(verb: Callable[[Ticket], Awaitable[object]], tickets: list[Ticket]) -> Awaitable[list[Any]]:
    return asyncio.gather(*map(verb, tickets), return_exceptions=True)


async def test_verbs_of_one_tick_are_one_call(client: Client, tickets: list[Ticket]) -> None:
    """But the first of many, which travels alone because nothing tells that others follow."""
    other = tickets[0].wishing(line=LineId("lock", f"merged-{next(_lines)}"))
    await client.backend.join(other)
    await client.backend.leave(other)  # the server knows the scripts from now on
    joined = await counted(client, lambda: at_once(client.backend.join, tickets))
    assert joined == {"evalsha": 2, "time": 2, "hget": 10, "hset": 10, "pexpireat": 10}
    left = await counted(client, lambda: at_once(client.backend.leave, tickets))
    assert left == {"evalsha": 2, "time": 2, "hget": 10, "hset": 10, "hdel": 2}


async def spoil(client: Client, ticket: Ticket) -> None:
    """Let somebody else write to the key of a line."""
    await client.do("SET", client.backend._keys.name(ticket.line).key, "not a line")


async def join_beside_spoilt(client: Client, tickets: list[Ticket]) -> list[object]:
    await spoil(client, tickets[5])
    return await at_once(client.backend.join, tickets)


async def test_one_that_fails_fails_alone(client: Client, tickets: list[Ticket]) -> None:
    answers = await join_beside_spoilt(client, tickets)
    assert isinstance(answers.pop(5), BackendDataError)
    assert all(isinstance(answer, Inside) for answer in answers)
    left = await at_once(client.backend.leave, tickets)
    assert isinstance(left.pop(5), BackendDataError)
    assert left == [None] * 9
    assert not await client.backend.inspect("lock", "merged-*")


async def test_one_that_fails_for_all_is_found(
    connect: Connect, tickets: list[Ticket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: an error of one ends the call."""
    right = backend_module._JOIN
    worse = right.text.replace("local is_done, answer = pcall(verb, ", "local is_done, answer = true, verb(")
    assert worse != right.text
    monkeypatch.setattr(backend_module, "_JOIN", Script.of("join", worse))
    answers = await join_beside_spoilt(await connect(), tickets)
    assert sum(isinstance(answer, Inside) for answer in answers) <= 1


async def test_whoever_raises_on_hearing_costs_the_others_nothing(client: Client, tickets: list[Ticket]) -> None:
    heard: list[object] = []
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context["exception"]))
    await client.backend.join(tickets.pop())  # the server knows the script from now on
    verbs: list[Any] = [client.backend.join(ticket) for ticket in tickets]
    for verb in verbs:
        verb.then = heard.append
    verbs[4].then = len  # an answer has no length
    await client.backend.ping()
    assert len(heard) == 8
    assert [type(error) for error in raised] == [TypeError]
