"""Stock in MariaDB: the procedures against the ledger, what is due, what they leave in the tables."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import aiodlock
from aiodlock._core.stock import Differs, Move, Returned, SoldOut, Take, Taken, Terms
from aiodlock.backends.mysql import setup
from aiodlock.backends.mysql.queries import VERSION, procedures
from aiodlock.errors import BackendError
from aiodlock.testing.servers import MariaDBServer
from tests.integration.ledgers import compare
from tests.integration.mysql.conftest import Admin, Client

Connect = Callable[..., Awaitable[Client]]

TABLES = ("stocks", "stock_segments", "stock_orders", "stock_operations")
_numbers = itertools.count(1)


def new_terms(**facts: Any) -> Terms:
    return Terms(f"stock-{next(_numbers)}", **facts)


async def count(admin: Admin, table: str, terms: Terms) -> int:
    ((rows,),) = await admin.ask(f"SELECT COUNT(*) FROM aiodlock_{table} WHERE stock = '{terms.key}'")
    return int(rows)


async def let_pass(admin: Admin, terms: Terms, seconds: float) -> None:
    """Let time pass for all orders of a stock."""
    ends = f"ends = ends - {seconds * 1e6:.0f}"
    for table in ("stock_orders", "stock_operations"):
        await admin.ask(f"UPDATE aiodlock_{table} SET {ends} WHERE stock = '{terms.key}'")


# --- the model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_the_procedures_answer_what_the_ledger_answers(client: Client, seed: int) -> None:
    """Answer for answer: segment, what is left, and the movements in the outbox."""
    await compare(client.backend.stock, f"stock-{next(_numbers)}", seed)


FAULTS = {
    "no guard: as many as you like": ("AND rest >= v_quantity;\n    IF ROW_COUNT() = 0", ";\n    IF ROW_COUNT() = 0"),
    "a call is given what its segments lack": ("IF v_spare >= 0 THEN", "IF TRUE THEN"),
    "orders are not remembered": ("FROM aiodlock_stock_orders WHERE stock = p_stock AND id = v_id;", "LIMIT 0;"),
    "one who is in the call twice": ("SET v_known = v_known + v_count - v_orders;", "DO 0;"),
    "nothing is buried": ("VALUES (p_stock, v_id, 3, p_buyer", "VALUES (p_stock, CONCAT(v_id, '?'), 3, p_buyer"),
    "a refusal in doubt is not kept": ("IF v_again THEN", "IF FALSE THEN"),
    "buyers are not looked at": ("IF v_once THEN", "IF FALSE THEN"),
    "adding has no id": ("operation = p_operation;", "operation = '';"),
    "no next segment": (
        "ORDER BY segment < v_home, segment LIMIT 1;\n        IF",
        "ORDER BY segment LIMIT 1;\n        IF",
    ),
    "what goes back goes to nobody": ("SET here.rest = here.rest + back.quantity", "SET here.rest = here.rest"),
    "the outbox misses a whole call": ("v_moved = CONCAT_WS(',', v_moved, v_text), v_count = 0", "v_count = 0"),
}


QUICK = {
    "no guard: as many as you like",
    "orders are not remembered",
    "nothing is buried",
    "one who is in the call twice",
}
every_fault = [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.long) for fault in FAULTS]


@pytest.mark.parametrize("fault", every_fault)
async def test_the_ledger_finds_a_procedure_with_a_fault(
    fault: str, connect: Connect, admin: Admin, server: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins, each in a database of its own."""
    old, new = FAULTS[fault]
    worse = [statement.replace(old, new) for statement in procedures()]
    assert worse != procedures(), "the fault is not in the procedures any more"
    monkeypatch.setattr(setup, "procedures", lambda: worse)
    database = f"stock_twin_{next(_numbers)}"
    await admin.ask(f"CREATE DATABASE {database}")
    client = await connect(server.url.replace(server.database, database))
    with pytest.raises((AssertionError, BackendError)):
        for seed in range(12):
            await compare(client.backend.stock, f"k{seed}", seed)


# --- the outbox --------------------------------------------------------------------------------------------


async def test_looking_into_an_empty_outbox_commits_nothing(client: Client, admin: Admin) -> None:
    """A relay does it many times a second; what is due, or was written, is found all the same."""
    terms = new_terms(outbox=True)
    room = client.backend.stock(terms)
    await room.load(5, "op")

    async def commits() -> int:
        ((_, number),) = await admin.ask("SHOW GLOBAL STATUS LIKE 'Com_commit'")
        return int(number)

    before = await commits()
    for _ in range(5):
        assert await room.outbox("", 10) == []
    assert await commits() == before
    await room.take([Take("o-1", "ann", hold_for=600)])
    (entry,) = await room.outbox("", 10)
    assert await room.outbox(entry.id, 10) == []
    await let_pass(admin, terms, 600)
    (entry,) = await room.outbox("", 10)
    assert [one.move for one in entry.movements] == [Move.RETURNED]
    other = client.backend.stock(Terms(terms.key, 2, outbox=True))
    assert await other.outbox(entry.id, 10) == await other.outbox("", 10) == Differs(terms)


# --- what is due -------------------------------------------------------------------------------------------


async def test_many_reservations_that_end_at_once_go_back_before_anybody_is_refused(
    client: Client, admin: Admin
) -> None:
    """More than one step of what is due."""
    terms = new_terms(segments=3, outbox=True)
    room = client.backend.stock(terms)
    await room.load(600, "op")
    for call in range(6):
        await room.take([Take(f"r{call}-{n}", "ann", home=n % 3, hold_for=600) for n in range(100)])
    await let_pass(admin, terms, 600)
    assert await room.take([Take("big", "bob", quantity=600)]) == [Taken(0, 0)]
    assert await room.put_back("r1-1", "ann") == Returned(1)
    entries = await room.outbox("", 100)
    assert not isinstance(entries, Differs)
    moves = [movement.move.value for entry in entries for movement in entry.movements]
    assert (moves.count("reserved"), moves.count("returned"), moves[-1]) == (600, 600, "taken")


@pytest.mark.parametrize("verb", ["confirm", "put_back", "take"])
async def test_an_order_whose_time_is_over_is_over_though_hundreds_are_before_it(
    client: Client, admin: Admin, verb: str
) -> None:
    """Each verb does a part of what is due; its own order is among it."""
    terms = new_terms(once_per_buyer=verb == "take")
    room = client.backend.stock(terms)
    await room.load(2000, "op")
    for call in range(10):
        await room.take([Take(f"r{call}-{n}", f"b{call}-{n}", hold_for=600) for n in range(100)])
    await room.take([Take("last", "ann", quantity=3, hold_for=601)])
    await let_pass(admin, terms, 601)
    if verb == "take":
        (sale,) = await room.take([Take("next", "ann")])
        assert isinstance(sale, Taken)
        assert await room.take([Take("last", "ann", quantity=3)]) == [Returned(3)]
    else:
        assert await getattr(room, verb)("last", "ann") == Returned(3)
    audit = await room.audit()
    assert not isinstance(audit, Differs)
    assert (audit.is_balanced, audit.returned) == (True, 1003)


async def test_orders_are_forgotten_after_their_time_and_the_books_still_balance(client: Client, admin: Admin) -> None:
    """The table does not grow for ever."""
    terms = new_terms(memory=60.0, once_per_buyer=True)
    room = client.backend.stock(terms)
    await room.load(10, "op")
    await room.take([Take("o1", "ann"), Take("o2", "bob")])
    await room.put_back("o2", "bob")
    await room.take([Take("o3", "eve", quantity=50, again=True)])
    await let_pass(admin, terms, 60)
    await room.remaining()
    assert [await count(admin, table, terms) for table in TABLES] == [1, 1, 0, 0]
    audit = await room.audit()
    assert not isinstance(audit, Differs)
    assert (audit.is_balanced, audit.forgotten, audit.left) == (True, 1, 9)
    assert await room.take([Take("o4", "ann")]) == [Taken(0, 8)]


async def test_a_closed_sale_goes_when_all_of_it_is_over_and_an_open_one_stays(client: Client, admin: Admin) -> None:
    """A stock is data. The outbox stays until it has been read, and its numbers are not used twice."""
    closed, still_open = new_terms(outbox=True), new_terms()
    room = client.backend.stock(closed)
    for terms in (closed, still_open):
        await client.backend.stock(terms).load(2, "op")
    await room.take([Take("o1", "ann")])
    await room.close()
    ((kept, alive),) = await admin.ask(
        f"SELECT kept, kept > 2 * memory + TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) "
        f"FROM aiodlock_stocks WHERE stock = '{closed.key}'"
    )
    assert (kept < 9000000000000000, alive) == (True, 1)
    await admin.ask(f"UPDATE aiodlock_stocks SET kept = 1 WHERE stock = '{closed.key}'")
    await client.backend.stock(new_terms()).load(1, "op")
    assert [await count(admin, table, closed) for table in TABLES] == [0, 0, 0, 0]
    assert await count(admin, "stocks", still_open) == 1
    before = await room.outbox("", 10)
    assert not isinstance(before, Differs)
    assert [movement.order for movement in before[0].movements] == ["o1"]
    await room.load(5, "again")
    await room.take([Take("o1", "ann")])
    after = await room.outbox(before[-1].id, 10)
    assert not isinstance(after, Differs)
    assert [movement.order for entry in after for movement in entry.movements] == ["o1"]


# --- terms, calls, rights ----------------------------------------------------------------------------------


async def test_other_terms_are_refused(client: Client) -> None:
    """By every verb, with the terms that are in use."""
    terms = new_terms(segments=4, memory=60.0)
    await client.backend.stock(terms).load(5, "op")
    other = client.backend.stock(Terms(terms.key, 5, 60.0))
    assert await other.take([Take("o1", "ann")] * 2) == Differs(terms)
    for answer in (other.load(1, "x"), other.put_back("o", "b"), other.remaining(), other.audit(), other.outbox("", 1)):
        assert await answer == Differs(terms)


async def test_any_name_is_an_order(client: Client) -> None:
    """Names are bytes to the server: no quote, no case, no blank and no alphabet means anything."""
    room = client.backend.stock(new_terms(once_per_buyer=True))
    await room.load(100, "op")
    names = ["o", "O", "o ", "ö", "o'", '"', "\\", "订单", "%", "_", "0x6f", "x" * 255, "é" * 127]
    takes = [Take(name, name) for name in names]
    answers = [(await room.take([take]))[0] for take in takes[:6]] + list(await room.take(takes[6:]))
    assert [type(answer) for answer in answers] == [Taken] * len(names)
    assert list(await room.take(takes)) == answers
    assert await room.put_back("订单", "买家") == aiodlock.AlreadyTaken("订单", "订单")


async def test_takes_of_one_tick_are_one_call(server: MariaDBServer, admin: Admin) -> None:
    """However many tasks ask, up to two hundred in a call; they are one entry of the outbox."""
    async with aiodlock.connect(server.url) as locks:
        stock = locks.stock(f"stock-{next(_numbers)}", segments=4, outbox=True)
        await stock.load(250)
        await asyncio.gather(*(stock.take(buyer=f"b{number}", order=f"o{number}") for number in range(249)))
        entries = await stock.read_outbox()
    assert [len(entry.movements) for entry in entries] == [200, 49]


async def test_many_who_make_one_stock_at_once_make_one(server: MariaDBServer, connect: Connect) -> None:
    """First use from all sides: whoever is second finds it."""
    clients = [await connect() for _ in range(6)]
    for _ in range(5):
        terms = new_terms(segments=7)
        loads = [client.backend.stock(terms).load(70, f"op{n}") for n, client in enumerate(clients)]
        assert sorted(await asyncio.gather(*loads)) == [False] * 5 + [True]
        left = await clients[0].backend.stock(terms).remaining()
        assert left == aiodlock.Remaining((10,) * 7)


async def test_tables_of_the_first_version_get_stock_at_the_next_connect(
    server: MariaDBServer, admin: Admin, connect: Connect
) -> None:
    """And who may use locks may use stock, without any right to create."""
    await admin.ask("CREATE DATABASE older")
    url = server.url.replace(server.database, "older")
    await connect(url)
    for table in (*TABLES, "stock_outbox"):
        await admin.ask(f"DROP TABLE older.aiodlock_{table}")
    await admin.ask("DROP PROCEDURE older.aiodlock_stock_take")
    await admin.ask("UPDATE older.aiodlock_versions SET version = 1")
    await connect(url)
    assert await admin.ask("SELECT MAX(version) FROM older.aiodlock_versions") == [(VERSION,)]
    await admin.ask("CREATE OR REPLACE USER seller@'%'")
    await admin.ask("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON older.* TO seller@'%'")
    seller = await connect(url.replace("root@", "seller@"), create=False)
    room = seller.backend.stock(new_terms(outbox=True))
    assert await room.load(1, "op")
    assert await room.take([Take("o1", "ann"), Take("o2", "bob")]) == [Taken(0, 0), SoldOut(0)]
    await room.close()
