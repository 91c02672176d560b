"""Stock in Redis: the scripts against the ledger, what they cost, what they leave on the server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import aiodlock
from aiodlock._core.line import LineId
from aiodlock._core.stock import Differs, Remaining, Returned, SoldOut, Take, Taken, Terms
from aiodlock.backends.redis import shelf
from aiodlock.backends.redis.acl import STOCKING, acl_line
from aiodlock.backends.redis.scripts import Script, load
from aiodlock.backends.redis.stock import RedisStockroom
from aiodlock.errors import BackendError
from aiodlock.testing.servers import RedisServer
from tests.integration.ledgers import compare
from tests.integration.redis.conftest import Client
from tests.integration.redis.test_cost import counted

_numbers = itertools.count(1)


def new_terms(**facts: Any) -> Terms:
    return Terms(f"stock-{next(_numbers)}", **facts)


@pytest.mark.parametrize("seed", range(12))
async def test_the_scripts_answer_what_the_ledger_answers(client: Client, seed: int) -> None:
    """Answer for answer: segment, what is left, and the movements in the outbox."""
    await compare(client.backend.stock, f"stock-{next(_numbers)}", seed)


async def test_a_hundred_orders_cost_the_server_a_handful_of_commands(client: Client) -> None:
    """Taken or refused; and a refusal writes nothing."""
    room = client.backend.stock(new_terms(segments=16, once_per_buyer=True, outbox=True))
    await room.load(100, "op")
    takes = [Take(f"o{number}", f"b{number}") for number in range(200)]
    await room.take([Take("warm", "up", quantity=101)])
    taken = await counted(client, lambda: room.take(takes[:100]))
    reads = {"evalsha": 1, "time": 1, "hget": 1, "zrangebyscore": 1, "hmget": 2}
    assert taken == {**reads, "hset": 1, "zadd": 1, "xadd": 1}
    refused = await counted(client, lambda: room.take(takes[100:]))
    assert refused == {**reads, "zrangebyscore": 2}


async def test_takes_of_one_tick_are_one_call(server: RedisServer, client: Client) -> None:
    """However many tasks ask, up to two hundred in a call."""
    async with aiodlock.connect(server.url) as locks:
        stock = locks.stock(f"stock-{next(_numbers)}", segments=4)
        await stock.load(250)
        await stock.take(buyer="warm", order="up")
        all_at_once = [stock.take(buyer=f"b{number}", order=f"o{number}") for number in range(249)]
        used = await counted(client, lambda: asyncio.gather(*all_at_once))
    assert used["evalsha"] == 2


async def test_many_reservations_that_end_at_once_go_back_before_anybody_is_refused(client: Client) -> None:
    """More than one step sweeps."""
    room = client.backend.stock(new_terms(segments=3))
    await room.load(500, "op")
    await room.take([Take(f"r{number}", "ann", hold_for=0.05) for number in range(500)])
    await until_over(client, room, count=10)  # fifty orders each
    assert await room.take([Take("big", "bob", quantity=500)]) == [Taken(0, 0)]
    assert await room.put_back("r1", "ann") == Returned(1)


async def until_over(client: Client, room: RedisStockroom, *, count: int) -> None:
    """Return when the server's clock has passed the first *count* things due, without any verb of the stock."""
    ((_, last),) = await client.do("ZRANGE", due_of(client, room), count - 1, count - 1, "WITHSCORES")
    await asyncio.sleep((last - await now_of(client) + 1) / 1000)


async def now_of(client: Client) -> int:
    seconds, micros = await client.do("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def next_millisecond(client: Client) -> None:
    now = await now_of(client)
    while await now_of(client) == now:
        pass


def due_of(client: Client, room: RedisStockroom) -> bytes:
    return client.key(LineId("stock", room._terms.key)) + b":due"


async def test_orders_are_forgotten_after_their_time_and_the_books_still_balance(client: Client) -> None:
    """The hash does not grow for ever."""
    room = client.backend.stock(new_terms(memory=3.0, once_per_buyer=True))
    await room.load(10, "op")
    await room.take([Take("o1", "ann"), Take("o2", "bob")])
    await room.put_back("o2", "bob")
    key = client.key(LineId("stock", room._terms.key))
    await until_over(client, room, count=3)
    await room.remaining()
    assert await client.do("HKEYS", key) == [b"stock"]
    audit = await room.audit()
    assert not isinstance(audit, Differs)
    assert (audit.is_balanced, audit.forgotten, audit.left) == (True, 1, 9)
    assert await room.take([Take("o3", "ann")]) == [Taken(0, 8)]


async def made_anew(client: Client) -> RedisStockroom:
    """Return a stock where an order is due that is also in an old group, whose turn has not come: both come at once."""
    room: RedisStockroom = client.backend.stock(new_terms(memory=3.0))
    await room.load(300, "op")
    await next_millisecond(client)
    await room.take([Take(f"o{number}", "ann") for number in range(200)])
    await next_millisecond(client)
    await room.take([Take("again", "ann"), Take("other", "ann")])
    await until_over(client, room, count=6)  # the load, fifty orders each, and these two
    assert await room.take([Take("again", "ann", hold_for=0.05)]) == [Taken(0, 97)]
    await until_over(client, room, count=2)
    return room


async def test_an_order_that_was_forgotten_and_made_anew_goes_back_once(client: Client) -> None:
    """However often it stands in the plan."""
    room = await made_anew(client)
    assert await room.remaining() == Remaining((98,))
    audit = await room.audit()
    assert not isinstance(audit, Differs)
    assert audit.is_balanced


async def test_it_would_go_back_twice_if_it_were_picked_twice(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the above."""
    room = await made_anew(client)
    right = load("restock").text
    wrong = right.replace("picked[name] = true", "")
    assert wrong != right
    monkeypatch.setattr(shelf, "_RESTOCK", Script.of("restock", wrong))
    assert await room.remaining() == Remaining((99,))


async def test_every_key_goes_by_itself_once_the_sale_is_closed(client: Client) -> None:
    """An open sale stays: a stock is data. The outbox stays until it has been read."""
    room = client.backend.stock(new_terms(memory=60.0, outbox=True))
    key = client.key(LineId("stock", room._terms.key))
    keys = (key, key + b":due", key + b":outbox")
    await room.load(2, "op")
    await room.take([Take("o1", "ann")])
    assert [await client.do("PTTL", one) for one in keys] == [-1, -1, -1]
    await room.close()
    assert await room.take([Take("o2", "ann")]) == [SoldOut(1)]
    for one in keys[:2]:
        assert 60_000 < await client.do("PTTL", one) <= 120_000
    entries = await room.outbox("", 10)
    assert not isinstance(entries, Differs)
    assert [movement.order for movement in entries[0].movements] == ["o1"]
    assert await room.outbox(entries[-1].id, 10) == []
    assert await client.do("EXISTS", keys[2]) == 0
    await room.load(5, "again")
    assert [await client.do("PTTL", one) for one in keys[:2]] == [-1, -1]


async def test_an_order_that_was_never_loaded_for_leaves_no_key_for_ever(client: Client) -> None:
    """A tombstone of a stock that nobody loads."""
    room = client.backend.stock(new_terms(memory=60.0))
    assert await room.put_back("o1", "ann") == Returned(0)
    key = client.key(LineId("stock", room._terms.key))
    assert 60_000 < await client.do("PTTL", key) <= 120_000
    await room.load(5, "op")
    assert await room.take([Take("o1", "ann")]) == [Returned(0)]


async def test_other_terms_are_refused(client: Client) -> None:
    """By every verb, with the terms that are in use."""
    terms = new_terms(segments=4, memory=60.0)
    await client.backend.stock(terms).load(5, "op")
    other = client.backend.stock(Terms(terms.key, 5, 60.0))
    assert await other.take([Take("o1", "ann")] * 2) == Differs(terms)
    for answer in (other.load(1, "x"), other.put_back("o", "b"), other.remaining(), other.audit(), other.outbox("", 1)):
        assert await answer == Differs(terms)


# --- rights ------------------------------------------------------------------------------------------------


async def use_everything(client: Client) -> None:
    room = client.backend.stock(new_terms(memory=60.0, once_per_buyer=True, outbox=True))
    await room.load(2, "op")
    await room.take([Take("o-1", "ann", hold_for=0.05), Take("o-2", "bob")])
    await asyncio.sleep(0.06)  # the reservation is over: this user may not ask the server for its time
    await room.put_back("o-2", "bob")
    entries = await room.outbox("", 9)
    assert not isinstance(entries, Differs)
    assert len(entries) == 3
    assert await room.outbox(entries[-1].id, 9) == []
    assert (await room.audit()).is_balanced  # type: ignore[union-attr]
    await room.close()


@pytest.mark.parametrize("missing", ["", *STOCKING])
async def test_the_documented_rights_are_enough_and_none_is_too_much(
    connect: Callable[..., Awaitable[Client]], client: Client, server: RedisServer, missing: str
) -> None:
    await client.do(*acl_line("shop", "pw", stocking=True))
    await client.do("SCRIPT", "FLUSH")
    url = server.url.replace("redis://", "redis://shop:pw@")
    if not missing:
        await use_everything(await connect(url))
        return
    await client.do("ACL", "SETUSER", "shop", f"-{missing}")
    with pytest.raises(BackendError):
        await use_everything(await connect(url))
