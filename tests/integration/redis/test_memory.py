"""What a server whose memory is full refuses: newcomers, however short the line, and nobody who is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from aiodlock._core.line import Called, Inside, Ticket, Waiting
from aiodlock.backends.redis import backend as backend_module
from aiodlock.backends.redis.scripts import Script
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.servers import RedisServer
from tests.integration.redis.conftest import Client

Make = Callable[..., Ticket]
Connect = Callable[..., Awaitable[Client]]
LENGTHS = [1, 2, 3]  # each has a form of its own


@pytest.fixture
async def full(connect: Connect) -> AsyncIterator[Client]:
    """A client of a server of its own, which `stand` fills."""
    with RedisServer() as own:
        client = await connect(own.url)
        yield client
        await client.backend.aclose()


async def stand(client: Client, ticket: Make, length: int) -> list[Ticket]:
    """Put so many in line, then fill the memory."""
    tickets = [ticket() for _ in range(length)]
    for one in tickets:
        await client.backend.join(one)
    await client.backend.leave(ticket())  # the server knows the script from now on
    await client.told()
    await client.do("CONFIG", "SET", "maxmemory", 1)
    return tickets


@pytest.mark.parametrize("length", LENGTHS)
async def test_who_is_in_line_is_renewed_called_and_leaves(full: Client, ticket: Make, length: int) -> None:
    tickets = await stand(full, ticket, length)
    assert [type(answer) for answer in await full.backend.renew(tickets)] == [Inside] + [Waiting] * (length - 1)
    for one in tickets:
        await full.backend.leave(one)
    assert [call.id for call in await full.told() if isinstance(call, Called)] == [one.id for one in tickets[1:]]
    assert await full.backend.inspect(*tickets[0].line) == []


@pytest.mark.parametrize("length", LENGTHS)
async def test_who_comes_is_refused(full: Client, ticket: Make, length: int) -> None:
    tickets = await stand(full, ticket, length)
    with pytest.raises(BackendUnavailableError):
        await full.backend.join(ticket())
    assert [row.id for row in await full.backend.inspect(*tickets[0].line)] == [one.id for one in tickets]


def break_script(monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    right: Script = getattr(backend_module, name)
    worse = right.text.replace(old, new)
    assert worse != right.text
    monkeypatch.setattr(backend_module, name, Script.of(right.name, worse))


@pytest.mark.parametrize("length", [1, 2])
async def test_a_leave_that_takes_memory_is_found(
    full: Client, ticket: Make, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: its first write could take memory."""
    break_script(monkeypatch, "_LEAVE", "if not has_written then redis.call('HDEL', KEY, '') end", "")
    tickets = await stand(full, ticket, length)
    with pytest.raises(BackendUnavailableError):
        await full.backend.leave(tickets[0])


async def test_a_newcomer_who_is_let_in_is_found(full: Client, ticket: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the join of the second begins with a write that could not take memory."""
    break_script(monkeypatch, "_JOIN", "if form == SEVERAL then line.removed", "if true then line.removed")
    await stand(full, ticket, 1)
    assert isinstance(await full.backend.join(ticket()), Waiting)
