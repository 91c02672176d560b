"""Somebody else in the same tables: open transactions that lock our rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiodlock._core.line import LineId, Ticket
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.backends.mysql.queries import line_name, literal
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin

__all__ = ["row_of", "row_of_ticket", "transaction", "until_waiting"]


@asynccontextmanager
async def transaction(server: MariaDBServer, *statements: str) -> AsyncIterator[Admin]:
    """Somebody else's open transaction."""
    link = await Link.open(Address.from_url(server.url))
    for statement in ("START TRANSACTION", *statements):
        await link.ask(statement)
    try:
        yield Admin(link)
    finally:
        await link.aclose()


async def until_waiting(admin: Admin, count: int) -> None:
    """Return as soon as *count* transactions wait for a lock; asked more often, InnoDB repeats its last answer."""
    question = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    async with asyncio.timeout(10):
        while (await admin.ask(question))[0][0] < count:  # noqa: ASYNC110
            await asyncio.sleep(0.12)


def row_of(line: LineId) -> str:
    return f"SELECT * FROM aiodlock_lines WHERE line = {literal(line_name(line))} FOR UPDATE"


def row_of_ticket(ticket: Ticket) -> str:
    line, name = literal(line_name(ticket.line)), literal(ticket.id.encode())
    return f"SELECT * FROM aiodlock_tickets WHERE line = {line} AND id = {name} FOR UPDATE"
