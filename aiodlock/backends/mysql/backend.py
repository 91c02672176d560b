"""MySQL and MariaDB as a backend: verbs become calls of procedures, calls come by mail and a bell."""

from __future__ import annotations

import asyncio
import fnmatch
import random
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from aiodlock._core.line import (
    Answer,
    AskedToGo,
    CompanyCame,
    Inside,
    LineId,
    Reconnected,
    Row,
    Ticket,
    TicketId,
    Waiting,
    tombstone_life,
)
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Capabilities, Finding, OnCall, Reply
from aiodlock.backends.mysql import setup
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.batch import Decode, Shortcut
from aiodlock.backends.mysql.bell import Bell, pillow_of, take
from aiodlock.backends.mysql.doctor import findings
from aiodlock.backends.mysql.link import Link
from aiodlock.backends.mysql.node import Node, dial
from aiodlock.backends.mysql.queries import (
    VERSION,
    Rows,
    call,
    line_name,
    micros,
    to_answer,
    to_call,
    to_int,
    to_none,
    to_row,
)
from aiodlock.backends.mysql.shortcuts import SHORTCUTS, Shortcuts
from aiodlock.backends.mysql.stock import MySQLStockroom
from aiodlock.errors import BackendDataError, BackendUnavailableError

__all__ = ["MySQLBackend"]

_T = TypeVar("_T")

_LOOK = 0.05  # seconds, more or less, after which a waiter looks that nobody can call
_LONGEST_TEXT = 1024  # bytes of an owner's name or a reason
_LITERAL = re.compile(r"[^*?[]*")


class MySQLBackend:
    """One client's connections to one database: one for verbs, one that sleeps until this client is called.

    *pushes*: whether to be called; without it everybody looks, every 50 ms or so. *create*: whether to make tables and
    procedures that are missing. *patience*: seconds without a reply after which a connection is given up.
    """

    def __init__(self, address: Address, *, pushes: bool = True, create: bool = True, patience: float = 3.0) -> None:
        self.capabilities = Capabilities(pushes=pushes, stock=True)
        self.address = str(address)
        self._client = secrets.token_hex(8).encode() if pushes else b""
        self._create = create
        self._patience = patience
        self._on_call: OnCall | None = None
        self._shortcuts = Shortcuts(self._client)
        self._node = Node(address, greet=self._greet, on_up=self._reconnected, patience=patience)
        self._bell = Bell(address, self._client, self._called, patience=patience)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        unverified: bool = False,
        plaintext: bool = False,
        pushes: bool = True,
        create: bool = True,
        patience: float = 3.0,
    ) -> MySQLBackend:
        """Return the backend of ``mysql://`` or ``mysqls://``."""
        address = Address.from_url(url, unverified=unverified, plaintext=plaintext)
        return cls(address, pushes=pushes, create=create, patience=patience)

    async def open(self, on_call: OnCall) -> None:
        self._on_call = on_call
        await self._node.open()
        if self.capabilities.pushes:
            await self._bell.open()

    async def aclose(self) -> None:
        self._on_call = None
        await self._node.aclose()  # it holds what the other one waits for, so that the server lets both go at once
        await self._bell.aclose()

    def ping(self) -> Awaitable[None]:
        return self._node.send("DO 0", to_none)

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        line, owner = line_name(ticket.line), ticket.owner.encode()[:_LONGEST_TEXT]
        shortcut = self._shortcuts.of_join(line, ticket, owner) if queue and not instead_of else None
        return self._call(
            "join",
            line,
            ticket.id.encode(),
            int(queue),
            (instead_of or "").encode(),
            ticket.weight,
            ticket.size,
            micros(ticket.ttl),
            micros(ticket.waiting_life),
            self._client,
            owner,
            self.capabilities.most_tickets,
            decode=partial(self._joined, ticket),
            shortcut=shortcut,
        )

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        remembered = micros(tombstone_life(ticket.ttl)) if bury else 0
        line = line_name(ticket.line)
        shortcut = None if bury else self._shortcuts.of_leave(line, ticket)
        arguments = ticket.id.encode(), remembered, self._client
        return self._call("leave", line, *arguments, decode=to_none, shortcut=shortcut)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        return asyncio.gather(*map(self._renew, tickets))

    async def inspect(self, kind: str, pattern: str) -> Sequence[Row]:
        beginning = "" if kind == "*" else f"{kind}:{_LITERAL.match(pattern)[0]}"  # type: ignore[index]
        first = beginning.encode()
        rows = await self._node.send(call("inspect", first, first + b"\xff" * (320 - len(first))), _to_rows)
        return [row for row in rows if kind in ("*", row.kind) and fnmatch.fnmatchcase(row.key, pattern)]

    def change_weight(self, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        return self._call("weight", line_name(ticket.line), ticket.id.encode(), weight, decode=to_answer)

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        return self._call("size", line_name(line), size, decode=to_none)

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self._call("revoke", line_name(line), reason.encode()[:_LONGEST_TEXT], decode=to_int)

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        arguments = (count, down, operation.encode(), micros(ttl), self._client)
        return self._call("latch", line_name(line), *arguments, decode=to_int)

    def stock(self, terms: Terms) -> MySQLStockroom:
        return MySQLStockroom(self._node, terms)

    async def diagnose(self) -> Sequence[Finding]:
        """Look at the server's settings and our rights, over a connection of its own.

        Cancellation: the connection is closed.
        """
        async with self._aside() as link:
            return await findings(link)

    async def prepare(self) -> str:
        """Make the tables and procedures that are missing; return what is there now.

        Cancellation: what is made stays, and is found by the next try.
        """
        async with self._aside() as link:
            before = await setup.look(link)
            await setup.make(link)
        return f"tables and procedures of version {VERSION}" + (" were there" if before == VERSION else " made")

    # --- inner -------------------------------------------------------------------------------------------------

    def _call(
        self,
        verb: str,
        line: bytes,
        *arguments: bytes | int,
        decode: Decode[_T],
        shortcut: Shortcut[_T] | None = None,
    ) -> Reply[_T]:
        return self._node.send(partial(call, verb, line, *arguments), decode, lane=line, shortcut=shortcut)

    async def _renew(self, ticket: Ticket) -> Answer | None:
        lives = micros(ticket.ttl), micros(ticket.waiting_life)
        decode = partial(self._renewed, ticket)
        try:
            return await self._call("renew", line_name(ticket.line), ticket.id.encode(), *lives, decode=decode)
        except BackendUnavailableError:
            return None

    def _joined(self, ticket: Ticket, rows: Rows, via: int) -> Answer:
        answer = self._to_answer(rows, via)
        self._shortcuts.joined(ticket, answer)
        return answer

    def _renewed(self, ticket: Ticket, rows: Rows, via: int) -> Answer:
        answer = self._to_answer(rows, via)
        if isinstance(answer, Inside) and (reason := rows[0][1]) is not None and self._on_call:
            self._on_call(AskedToGo(ticket.id, bytes(reason).decode(errors="replace"), via))
        return answer

    def _to_answer(self, rows: Rows, via: int) -> Answer:
        answer = to_answer(rows, via)
        if isinstance(answer, Waiting) and not self._bell.is_heard:
            return replace(answer, look_again=min(answer.look_again, _LOOK * random.uniform(0.5, 1.5)))
        return answer

    @asynccontextmanager
    async def _aside(self) -> AsyncIterator[Link]:
        link = await dial(self._node.address, _as_it_is, within=self._patience)
        try:
            yield link
        finally:
            await link.aclose()

    async def _greet(self, link: Link) -> None:
        """See that this is the primary, and that our tables are there."""
        if await setup.look(link) < VERSION:
            if not self._create:
                raise BackendDataError(f"{link.where}: no tables of version {VERSION}: run 'aiodlock mysql init'")
            await setup.make(link)
        if self._client:
            await take(link, pillow_of(self._client))
        for name in SHORTCUTS:
            await link.prepare(name)

    def _called(self, row: tuple[Any, ...]) -> None:
        heard = to_call(row, self._node.via)
        if isinstance(heard, CompanyCame):
            self._shortcuts.met_somebody(bytes(row[2]))
        if self._on_call:
            self._on_call(heard)

    def _reconnected(self, via: int) -> None:
        if self._on_call:
            self._on_call(Reconnected(via))


async def _as_it_is(link: Link) -> None:
    """Ask nothing of a fresh connection."""


def _to_rows(rows: Rows, via: int) -> list[Row]:
    return [to_row(row) for row in rows]
