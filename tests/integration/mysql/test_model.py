"""Random verbs of two clients, compared step by step with a plain model; it finds procedures with one fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from aiodlock.backends.mysql import queries, setup
from aiodlock.backends.mysql.queries import procedures
from aiodlock.errors import BackendError
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin, Client
from tests.integration.redis import test_model as on_redis
from tests.integration.redis.test_model import Run

Connect = Callable[..., Awaitable[Client]]

SEEDS = 20
SHORT = 0.15  # longer than a step on a busy machine
_databases = count(1)


@pytest.fixture(autouse=True)
def short_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_redis, "SHORT", SHORT)


class SqlRun(Run):
    """The same steps; the time is this server's."""

    clients: list[Client]  # type: ignore[assignment]

    async def time(self) -> float:
        ((now,),) = await self.clients[0].admin.ask("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        return float(now) / 1e6

    async def fields(self) -> list[bytes]:
        return []  # it consists of rows, which are compared as they are

    async def renew(self) -> None:
        """One ticket at a time: here each is a step of its own, and a waiter may look before its holder is renewed."""
        stand = self.any_stand()
        ticket = stand.ticket.wishing(ttl=self.dice.choice([stand.ticket.ttl, SHORT]))
        backend = self.clients[self.dice.randrange(2)].backend
        (answer,) = await self.step(lambda: backend.renew([ticket]), lambda: self.renewed([ticket]))
        known = self.model.find(ticket.id)
        self.model.check_answer(known.ticket if known else ticket, answer)


async def run(clients: list[Client], enough: int) -> None:
    """Run seeds until *enough* of them ran to their end: on a busy machine, where a step takes long, some do not."""
    seeds = count()
    while enough > 0:
        enough -= await SqlRun(next(seeds), clients).go()  # type: ignore[arg-type]


async def test_the_procedures_do_what_the_model_does(connect: Connect) -> None:
    """Every answer, every call and every row of every step."""
    await run([await connect(), await connect()], SEEDS // 2 + 1)


FAULTS = {
    "no tombstone": ("VALUES (p_line, p_instead_of, 2, 0", "VALUES (p_line, CONCAT(p_instead_of, '?'), 2, 0"),
    "overtaking": ("SET v_is_inside = v_waiting = 0 AND", "SET v_is_inside ="),
    "the expired come back": ("SET state = 3, ends = v_now + 60000000\n", "SET state = 3, ends = 0\n"),
    "a life is shortened": ("AND v_ends < v_now + p_ttl THEN", "THEN"),
    "an epoch twice": ("GREATEST(v_last + 1, v_now DIV 16)", "v_now DIV 1000000000"),
    "any join resizes": ("IF v_inside + v_waiting = 0 THEN SET v_size", "IF TRUE THEN SET v_size"),
    "company is not told": ("IF v_waiting = 1 AND NOT v_is_inside THEN", "IF FALSE THEN"),
    "nobody is called": ("IF v_called <> '' AND v_called_id <> v_quiet THEN", "IF FALSE THEN"),
    "the dead stay inside": ("IF v_now >= v_soonest THEN", "IF FALSE THEN"),
    "standing again keeps the old": ("IF p_instead_of <> '' THEN", "IF FALSE THEN"),
    "the too heavy stay": (
        "DELETE FROM aiodlock_tickets WHERE line = p_line AND state = 0 AND weight > p_size",
        "DO 0",
    ),
    "leaving lets nobody in": ("WHILE v_waiting > 0 AND v_used < v_size", "WHILE v_waiting > 1 AND v_used < v_size"),
    "of several only one is called": ("ELSEIF v_calls > 1 THEN", "ELSEIF FALSE THEN"),
    "a lone ticket is not seen": ("IF v_is_lone THEN", "IF FALSE THEN"),
    "a follower is not seen": ("AND follower <> '';", "AND FALSE;"),
    "one follower in another's place": ("AND follower = '' AND graves = 0", "AND graves = 0"),
    "who fits follows": ("AND used + p_weight > size", ""),
    "a follower is not heard of": (
        "IF v_called <> '' THEN\n                INSERT",
        "IF FALSE THEN\n                INSERT",
    ),
    "who follows is called by nobody": ("waiting, follower, follower_client\n", "waiting, '', follower_client\n"),
    "handing on calls nobody": ("IF v_next_client <> '' THEN", "IF FALSE THEN"),
    "handing on overtakes": ("ORDER BY n.serial LIMIT 1", "ORDER BY n.serial DESC LIMIT 1"),
    "handing on lets in only one": ("AND (v_waiting = 1 OR v_weight = v_size) THEN", "THEN"),
    "who gave way is not told": ("IF v_client NOT IN ('', p_client) THEN", "IF FALSE THEN"),
}


QUICK = {
    "a follower is not seen",
    "no tombstone",
    "overtaking",
    "an epoch twice",
    "company is not told",
    "handing on calls nobody",
}
every_fault = [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.long) for fault in FAULTS]


@pytest.mark.parametrize("fault", every_fault)
async def test_the_model_finds_a_procedure_with_a_fault(
    fault: str, connect: Connect, admin: Admin, server: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins, each in a database of its own."""
    old, new = FAULTS[fault]
    worse = [statement.replace(old, new) for statement in procedures()]
    assert worse != procedures(), "the fault is not in the procedures any more"
    monkeypatch.setattr(setup, "procedures", lambda: worse)
    database = f"twin_{next(_databases)}"
    await admin.ask(f"CREATE DATABASE {database}")
    await admin.ask(f"USE {database}")
    url = server.url.replace(server.database, database)
    clients = [await connect(url), await connect(url)]
    with pytest.raises((AssertionError, BackendError, ValueError)):
        await run(clients, 4 * SEEDS)


SHORTCUTS = {
    "entering among others": ("enter", "AND inside = 0 ", ""),
    "entering before those who wait": ("enter", "AND inside = 0 AND waiting = 0", "AND used < size"),
    "entering after one's own burial": ("enter", "AND graves = 0", ""),
    "an epoch twice": ("enter", "GREATEST(last + 1, lone_since DIV 16)", "lone_since DIV 1000000000"),
    "going without a trace": ("go", "SET used = 0, inside = 0, lone", "SET used = 1, inside = 1, lone"),
}


@pytest.mark.parametrize("fault", SHORTCUTS)
async def test_the_model_finds_a_shortcut_with_a_fault(
    fault: str, connect: Connect, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client sends in place of a call is compared as well."""
    name, old, new = SHORTCUTS[fault]
    as_it_is = queries._bare
    assert old in as_it_is(name), "the fault is not in the shortcut any more"
    monkeypatch.setattr(
        queries, "_bare", lambda which: as_it_is(which).replace(old, new) if which == name else as_it_is(which)
    )
    clients = [await connect(), await connect()]
    with pytest.raises((AssertionError, BackendError, ValueError)):
        await run(clients, 4 * SEEDS)
