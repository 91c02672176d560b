"""The classic lock table, shared with services in other languages: who has a row until when, by the database's clock.

One row per key with five columns; the time is in UTC, the duration in milliseconds. A row is free when it says so or
its time is over; it is taken by inserting it, or by an update that asks for that. There is no queue and nobody is
called: who waits looks again and again, and who comes first is luck. Everything else, re-entry, renewal, loss,
cancellation, is the engine's as for every backend.
"""

from __future__ import annotations

import asyncio
import fnmatch
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from aiodlock._core.line import Answer, Gone, GoneWhy, Inside, LineId, Reconnected, Row, Ticket, TicketId, Waiting
from aiodlock.backends.base import Capabilities, OnCall, Reply
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import NO_TABLE, Link, StatementError
from aiodlock.backends.mysql.names import quoted
from aiodlock.backends.mysql.node import Node
from aiodlock.backends.mysql.queries import Rows, literal, to_none
from aiodlock.errors import BackendDataError, BackendUnavailableError, UnsupportedError

__all__ = ["LockTable", "LockTableColumns"]

_NOW = "UTC_TIMESTAMP(6)"


@dataclass(frozen=True, slots=True)
class LockTableColumns:
    """What the columns are called: key, since when (UTC), for how many milliseconds, by whom, and whether at all."""

    key: str = "lock_key"
    time: str = "lock_time"
    duration: str = "lock_duration"
    owner: str = "lock_owner"
    locked: str = "locked"


class LockTable:
    """A backend for plain locks over one table: ``LockClient(LockTable.from_url("mysql://…", table="locks"))``.

    The owner column gets the client's name, a slash and the ticket. Others have to write the time in UTC: ``NOW()`` of
    a session west of it looks expired at once. The time is also the fence: a column without microseconds is refused.
    *look*: about how many seconds between two looks of a waiter. A join that arrives after its leave cannot be known
    here: it costs one lease.
    """

    capabilities = Capabilities(kinds=frozenset({"lock"}), pushes=False, ordered=False)

    def __init__(
        self,
        address: Address,
        *,
        table: str = "locks",
        columns: LockTableColumns | None = None,
        look: float = 0.05,
        patience: float = 3.0,
    ) -> None:
        self.address = f"{address}#{table}"
        self._look = look
        self._on_call: OnCall | None = None
        self._inside: set[TicketId] = set()  # what was inside is kept or gone, and never taken anew
        self._node = Node(address, greet=self._greet, on_up=self._reconnected, patience=patience)
        names = self._names = columns or LockTableColumns()
        self._table, self._key, self._time = quoted(table), quoted(names.key), quoted(names.time)
        self._duration, self._owner, self._locked = quoted(names.duration), quoted(names.owner), quoted(names.locked)
        self._id = f"SUBSTRING_INDEX(COALESCE({self._owner}, ''), '/', -1)"  # what others write may have no slash
        self._ends = f"({self._time} + INTERVAL {self._duration} * 1000 MICROSECOND)"

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        table: str = "locks",
        columns: LockTableColumns | None = None,
        look: float = 0.05,
        unverified: bool = False,
        plaintext: bool = False,
    ) -> LockTable:
        """Return the backend over *table* of the database of ``mysql://`` or ``mysqls://``."""
        address = Address.from_url(url, unverified=unverified, plaintext=plaintext)
        return cls(address, table=table, columns=columns, look=look)

    @property
    def definition(self) -> str:
        """The statement that makes such a table."""
        text = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        return (
            f"CREATE TABLE IF NOT EXISTS {self._table} ({self._key} {text} PRIMARY KEY, "
            f"{self._time} DATETIME(6) NOT NULL, {self._duration} BIGINT NOT NULL, {self._owner} {text}, "
            f"{self._locked} BOOLEAN NOT NULL) ENGINE = InnoDB"
        )

    async def open(self, on_call: OnCall) -> None:
        self._on_call = on_call
        await self._node.open()

    async def aclose(self) -> None:
        self._on_call = None
        await self._node.aclose()

    def ping(self) -> Awaitable[None]:
        return self._node.send("DO 0", to_none)

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        if ticket.size != 1:
            refused: Reply[Answer] = Reply()
            refused.arrive(Gone(GoneWhy.TOO_HEAVY))  # a row has one owner
            return refused
        before = () if instead_of is None else (self._free(Ticket.of(ticket.line, instead_of)),)
        return self._ask(ticket, queue=queue, before=before)

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        def left(rows: Rows, via: int) -> None:
            self._inside.discard(ticket.id)  # again: a renewal may have been answered since

        self._inside.discard(ticket.id)
        return self._node.send(self._free(ticket), left, lane=ticket.line, results=1)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        # Sent here, not in a task: a leave that follows must not overtake it.
        return asyncio.gather(*[_or_none(self._ask(ticket)) for ticket in tickets])

    async def inspect(self, kind: str, pattern: str) -> Sequence[Row]:
        columns = f"TIMESTAMPDIFF(MICROSECOND, {self._time}, {_NOW}), TIMESTAMPDIFF(MICROSECOND, {_NOW}, {self._ends})"
        held = f"{self._locked} AND {self._ends} > {_NOW}"
        rows = await self._node.send(
            f"SELECT {self._key}, {self._owner}, {columns} FROM {self._table} WHERE {held}", _to_rows, results=1
        )
        if kind not in ("*", "lock"):
            prefix = f"{kind}:"
            rows = [
                replace(row, kind=kind, key=row.key.removeprefix(prefix)) for row in rows if row.key.startswith(prefix)
            ]
        return [row for row in rows if fnmatch.fnmatchcase(row.key, pattern)]

    def change_weight(self, ticket: Ticket, weight: int) -> NoReturn:
        self._refuse("another weight")

    def change_size(self, line: LineId, size: int) -> NoReturn:
        self._refuse("a size")

    def revoke(self, line: LineId, reason: str) -> NoReturn:
        self._refuse("a way to ask its holder")

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> NoReturn:
        self._refuse("latches")

    # --- inner -------------------------------------------------------------------------------------------------

    def _ask(self, ticket: Ticket, *, queue: bool = True, before: tuple[str, ...] = ()) -> Awaitable[Answer]:
        """Keep the row if it is this ticket's, take it if it is free and we never had it; then look whose it is."""
        is_new = ticket.id not in self._inside
        key, owner, milliseconds = self._key_of(ticket.line), self._owner_of(ticket), round(ticket.ttl * 1000)
        mine = f"{self._owner} = {owner} AND {self._locked} AND {self._ends} > {_NOW}"
        free = f"NOT {self._locked} OR {self._ends} <= {_NOW}"
        insert = (
            f"INSERT IGNORE INTO {self._table} "
            f"({self._key}, {self._time}, {self._duration}, {self._owner}, {self._locked}) "
            f"VALUES ({key}, {_NOW}, 0, '', FALSE)"
        )
        # Set from left to right: the duration, which shortens no life, sees the row as it was.
        left = f"CEIL(TIMESTAMPDIFF(MICROSECOND, {_NOW}, {self._ends}) / 1000)"
        life = f"IF({mine}, GREATEST({milliseconds}, {left}), {milliseconds})"
        update = (
            f"UPDATE {self._table} "
            f"SET {self._duration} = {life}, {self._time} = {_NOW}, {self._owner} = {owner}, {self._locked} = TRUE "
            f"WHERE {self._key} = {key} AND ({mine}{f' OR {free}' if is_new else ''})"
        )
        look = (
            f"SELECT {mine}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {self._time}) DIV 16, "
            f"TIMESTAMPDIFF(MICROSECOND, {_NOW}, {self._ends}), {self._owner} "
            f"FROM {self._table} WHERE {self._key} = {key}"
        )
        statements = (*before, insert, update, look) if is_new else (update, look)
        decode = partial(self._decode, ticket, queue)
        return self._node.send(";".join(statements), decode, lane=ticket.line, results=len(statements))

    def _decode(self, ticket: Ticket, queue: bool, rows: Rows, via: int) -> Answer:
        mine, epoch, left, owner = rows[0] if rows else (False, 0, 0, None)
        if mine:
            self._inside.add(ticket.id)
            return Inside(epoch, left / 1e6, company=True, size=1, via=via)
        if ticket.id in self._inside:
            self._inside.discard(ticket.id)
            return Gone(GoneWhy.EXPIRED, via=via)
        if not queue:
            return Gone(GoneWhy.BUSY, _name_of(owner), via)
        return Waiting(1, self._look * random.uniform(0.5, 1.5), 0, _name_of(owner), 1, via)

    def _free(self, ticket: Ticket) -> str:
        mine = f"{self._key} = {self._key_of(ticket.line)} AND {self._id} = {_text(ticket.id)}"
        return f"UPDATE {self._table} SET {self._locked} = FALSE WHERE {mine}"

    def _key_of(self, line: LineId) -> str:
        return _text(line.key if line.kind == "lock" else f"{line.kind}:{line.key}")

    def _owner_of(self, ticket: Ticket) -> str:
        return _text(f"{ticket.owner[:100]}/{ticket.id}")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(f"a lock table has no room for {what}: use the mysql:// backend")

    async def _greet(self, link: Link) -> None:
        """See that the table is there, and its time fine enough to be a fence; a TIMESTAMP then means UTC as well."""
        try:
            (columns,) = await link.ask(f"SET SESSION time_zone = '+00:00'; SHOW COLUMNS FROM {self._table}")
        except StatementError as error:
            if error.code != NO_TABLE:
                raise
            raise BackendDataError(f"{self.address} is not there: {self.definition}") from error
        kinds = {name.lower(): str(kind) for name, kind, *_ in columns}
        names = self._names
        wanted = (names.key, names.time, names.duration, names.owner, names.locked)
        if missing := [name for name in wanted if name.lower() not in kinds]:
            raise BackendDataError(f"{self.address} has no column {', '.join(missing)}: name yours by columns=")
        if not kinds[names.time.lower()].endswith("(6)"):
            cure = f"ALTER TABLE {self._table} MODIFY {self._time} DATETIME(6) NOT NULL"
            raise BackendDataError(f"{self.address}: {names.time} has no microseconds, so fences would repeat: {cure}")

    def _reconnected(self, via: int) -> None:
        if self._on_call:
            self._on_call(Reconnected(via))


async def _or_none(asked: Awaitable[Answer]) -> Answer | None:
    try:
        return await asked
    except BackendUnavailableError:
        return None


def _text(value: str) -> str:
    return f"_utf8mb4 {literal(value.encode())}"


def _to_rows(rows: Rows, via: int) -> list[Row]:
    return [_to_row(*row) for row in rows]


def _to_row(key: str, owner: str | None, since: int, left: int) -> Row:
    ticket = TicketId((owner or "").rpartition("/")[2])
    return Row("lock", key, ticket, _name_of(owner), True, 1, since / 1e6, left / 1e6)


def _name_of(owner: str | None) -> str:
    """Return the name in an owner's column: before the last slash, or all of what others write."""
    return (owner or "").rpartition("/")[0] or owner or "unknown"
