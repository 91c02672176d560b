"""Stock on a bad day: replies lost, requests late, connections and servers killed. The books balance."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from functools import partial

import asyncmy
import pytest

import aiodlock
from aiodlock import Returned, SegmentedStock, Taken
from aiodlock._core.stock import Move
from aiodlock.testing.history import Event, check_conservation
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin
from tests.integration.mysql.test_chaos import Killer
from tests.integration.shops import close_the_books, rush, shop_in_a_process, stock_of

TAKE = b"CALL aiodlock_stock_take("
_numbers = itertools.count(1)


@pytest.fixture
def key() -> str:
    return f"faulty-{next(_numbers)}"


@pytest.fixture
async def stock(far: str, key: str) -> AsyncIterator[SegmentedStock]:
    """A stock behind the proxy."""
    async with aiodlock.connect(far) as locks:
        yield locks.stock(key, segments=4, outbox=True, patience=20.0)


@pytest.mark.parametrize("every", [1, 3])
async def test_connections_lost_between_commit_and_reply(proxy: FaultProxy, stock: SegmentedStock, every: int) -> None:
    """Each order that was accepted was taken once; everything is sold; the outbox tells of each once."""
    await stock.load(60)
    rule = proxy.drop_reply(match=TAKE, every=every, times=5)

    async def buy(number: int) -> bool:
        return isinstance(await stock.take(buyer=f"b{number}", order=f"o{number}"), Taken)

    accepted = await rush(buy, orders=90, lanes=3)
    assert rule.done >= 4
    left = (await stock.remaining()).segments
    assert check_conservation(60, accepted=[(f"o{n}", 1) for n in accepted], left=left) == []
    assert len(accepted) == 60
    assert (await stock.audit()).is_balanced
    entries = await stock.read_outbox(most=1000)
    told = [one.order for entry in entries for one in entry.movements if one.move is Move.TAKEN]
    assert sorted(told) == sorted(f"o{n}" for n in accepted)


async def test_a_take_that_arrives_after_its_put_back_takes_nothing(
    proxy: FaultProxy, server: MariaDBServer, stock: SegmentedStock
) -> None:
    """Held back in the network while the buyer gives up and puts it back over another connection."""
    await stock.load(5)
    held = proxy.hold_back(match=TAKE)
    taking = asyncio.create_task(stock.take(buyer="ann", order="o-1"))
    await asyncio.to_thread(held.wait, within=10)
    taking.cancel()
    async with aiodlock.connect(server.url) as locks:
        theirs = locks.stock(stock.key, segments=4, outbox=True)
        assert await theirs.put_back(buyer="ann", order="o-1") == Returned(0)
        held.deliver()
        assert await stock.take(buyer="ann", order="o-1") == Returned(0)
        assert (await theirs.remaining()).total == 5
        assert (await theirs.audit()).is_balanced


# --- processes ---------------------------------------------------------------------------------------------


Harm = Callable[[], Awaitable[object]]


def at_most(times: int, harm: Harm) -> Harm:
    """Do *harm* so often, then let things be: on a busy machine a connection is made as slowly as it is killed."""
    left = itertools.repeat(harm, times)

    async def some() -> None:
        await next(left, partial(asyncio.sleep, 0.03))()

    return some


async def sell(url: str, key: str, harm: Harm, *, shops: int, orders: int) -> list[Event]:
    """Let shops sell in processes of their own, and do *harm* again and again until they are done."""
    with ExitStack() as stack:
        workers = [stack.enter_context(shop_in_a_process(n, url=url, key=key, orders=orders)) for n in range(shops)]
        for worker in workers:
            await asyncio.to_thread(worker.await_event, "asked", within=30)
        while any(worker.running for worker in workers):
            await harm()
        return [event for worker in workers for event in worker.join(within=60)]


async def test_connections_that_are_killed_sell_nothing_twice(server: MariaDBServer, admin: Admin, key: str) -> None:
    """One every 30 ms, of several processes; everybody is served, and nobody has deadlocked with anybody."""
    deadlocks = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"
    before = await admin.ask(deadlocks)
    async with aiodlock.connect(server.url) as locks:
        stock = stock_of(locks, key)
        await stock.load(600)
        events = await sell(server.url, key, at_most(150, Killer(admin)), shops=3, orders=300)
        assert sum(event.what == "answered" for event in events) == 900
        assert await close_the_books(stock, 600, events) >= 600
    assert await admin.ask(deadlocks) == before


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_server_that_crashes_and_comes_back_has_what_it_answered(key: str) -> None:
    """Twice, under load: the log is on disk before an answer is sent."""
    with MariaDBServer() as own:
        crashes: list[int | None] = []

        async def crash() -> None:
            await asyncio.sleep(0.3)
            crashes.append(own.pid)
            await asyncio.to_thread(own.crash)
            await asyncio.to_thread(own.start)

        async with aiodlock.connect(own.url) as locks:
            stock = stock_of(locks, key)
            await stock.load(1500)
            events = await sell(own.url, key, at_most(2, crash), shops=3, orders=900)
            assert len(crashes) == 2
            assert await close_the_books(stock, 1500, events) >= 1500


# --- the broken twins --------------------------------------------------------------------------------------


async def plain(admin: Admin, key: str, stock: int) -> None:
    """Put a stock into a table of its own, as one does without us."""
    await admin.ask("CREATE TABLE IF NOT EXISTS plain_stock (id VARCHAR(64) PRIMARY KEY, rest INT NOT NULL)")
    await admin.ask(f"INSERT INTO plain_stock VALUES ('{key}', {stock})")


async def left_in(admin: Admin, key: str) -> int:
    ((rest,),) = await admin.ask(f"SELECT rest FROM plain_stock WHERE id = '{key}'")
    return int(rest)


async def test_a_guarded_update_with_retry_is_caught(
    proxy: FaultProxy, server: MariaDBServer, admin: Admin, key: str
) -> None:
    """The same rush, the same lost replies: it is never oversold, and articles are gone that nobody has."""
    await plain(admin, key, 60)
    proxy.drop_reply(match=b"UPDATE plain_stock", every=3, times=10)

    async def buy(number: int) -> bool:
        while True:
            try:
                async with asyncmy.connect(port=proxy.port, db=server.database, autocommit=True) as link:
                    await link.query(f"UPDATE plain_stock SET rest = rest - 1 WHERE id = '{key}' AND rest >= 1")
                    return bool(link.affected_rows)
            except (asyncmy.errors.Error, OSError):
                continue

    accepted = await rush(buy, orders=90, lanes=3)
    found = check_conservation(60, accepted=[(f"o{n}", 1) for n in accepted], left=[await left_in(admin, key)])
    assert [violation.rule for violation in found] == ["not conserved"]


async def test_reading_then_writing_without_a_guard_is_caught(server: MariaDBServer, admin: Admin, key: str) -> None:
    """Nothing is lost on the way, and more is sold than there was."""
    await plain(admin, key, 20)
    async with AsyncExitStack() as stack:
        links = [
            await stack.enter_async_context(asyncmy.connect(port=server.port, db=server.database, autocommit=True))
            for _ in range(4)
        ]
        free = list(links)

        async def buy(number: int) -> bool:
            link = free.pop()
            await link.query(f"SELECT rest FROM plain_stock WHERE id = '{key}'")
            ((rest,),) = link._result.rows
            if rest > 0:
                await link.query(f"UPDATE plain_stock SET rest = {rest - 1} WHERE id = '{key}'")
            free.append(link)
            return bool(rest > 0)

        accepted = await rush(buy, orders=90, lanes=4)
    found = check_conservation(20, accepted=[(f"o{n}", 1) for n in accepted], left=[await left_in(admin, key)])
    assert [violation.rule for violation in found] == ["not conserved"]
    assert len(accepted) > 20
