"""Redis as a backend: verbs become script calls, and the futures they return are the wire's own.

The verbs are written once; which server and which channel a line has is the route's to know.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from aiodlock._core.line import (
    Answer,
    Gone,
    GoneWhy,
    LineId,
    Row,
    Ticket,
    TicketId,
    Wish,
    tombstone_life,
    waiting_life,
)
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Capabilities, Finding, OnCall, Stockroom
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.batches import Batch
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.checks import diagnose
from aiodlock.backends.redis.confirmed import Confirming
from aiodlock.backends.redis.inspect import inspect
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node, Where
from aiodlock.backends.redis.request import Decode, Request
from aiodlock.backends.redis.route import Route, Single
from aiodlock.backends.redis.scripts import (
    LENGTHS,
    Script,
    bulk,
    joined,
    load,
    micros,
    to_answer,
    to_answers,
    to_int,
    to_none,
)
from aiodlock.backends.redis.stock import RedisStockroom
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendUnavailableError
from aiodlock.policy import check_count

__all__ = ["Lines", "RedisBackend"]

_T = TypeVar("_T")

_CACHED = 16_384  # lines whose packed beginnings are kept

_JOIN, _LEAVE, _RENEW, _LATCH = load("join"), load("leave"), load("renew"), load("latch")
_WEIGHT, _SIZE, _REVOKE = load("weight"), load("size"), load("revoke")
_JOIN_TERMS, _LEAVE_TERMS = struct.Struct("<B5d"), struct.Struct("<d")  # their numbers, as the scripts unpack them
_END = b"\r\n"


class Lines:
    """One client's lines in Redis: every verb, over whatever *route* leads to them."""

    def __init__(self, route: Route, calls: Calls, *, address: str) -> None:
        self.capabilities = Capabilities(pushes=calls.pushes, stock=True)
        self.address = address
        self._route = route
        self._calls = calls
        self._keys = calls.keys
        # The constant parts of the two hot verbs are packed once.
        self._to_join = lru_cache(_CACHED)(self._pack_join)
        self._to_leave = lru_cache(_CACHED)(self._pack_leave)

    @property
    def hearing(self) -> AbstractContextManager[None]:
        return self._calls.hearing

    @hearing.setter
    def hearing(self, hearing: AbstractContextManager[None]) -> None:
        self._calls.hearing = hearing

    async def open(self, on_call: OnCall) -> None:
        self._calls.on_call = on_call
        await self._route.open()

    async def aclose(self) -> None:
        self._calls.on_call = None
        await self._route.aclose()

    def ping(self) -> Awaitable[None]:
        return self._route.ping()

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        wish, ticket_id = ticket.wish, ticket.id.encode()
        if queue and instead_of is None:
            key, packed, rest, decode = self._to_join(wish)
        else:
            key, packed, rest, decode = self._pack_join(wish, queue=queue, instead_of=instead_of or "")
        payload = LENGTHS[len(ticket_id)] + ticket_id + rest
        return self._route.grant(key, Request(payload, decode, _JOIN, packed))

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        wish, ticket_id = ticket.wish, ticket.id.encode()
        if bury:
            key, packed, rest = self._pack_leave(wish, remembered=micros(tombstone_life(wish.ttl)))
        else:
            key, packed, rest = self._to_leave(wish)
        payload = LENGTHS[len(ticket_id)] + ticket_id + rest
        return self._route.take(key, Request(payload, to_none, _LEAVE, packed))

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        batch = Batch(tickets)
        for line, positions in batch.by_line():
            some = [tickets[i] for i in positions]
            arguments = [part for t in some for part in (t.id, micros(t.ttl), micros(t.waiting_life))]
            renewed = self._route.grant(*self._packed(_RENEW, line, arguments, to_answers))
            batch.expect(positions, renewed.future)
        return batch.answers

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return inspect(self._route, self._keys, kind, pattern)

    async def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        answer = await self._route.grant(*self._packed(_WEIGHT, ticket.line, (ticket.id, weight), to_answer))
        if isinstance(answer, Gone) and answer.why is GoneWhy.UNCONFIRMED:  # it tells of a life, as a renewal does
            raise BackendUnavailableError(f"{self.address}: {answer.why.value}")
        return answer

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        return self._call(_SIZE, line, size, decode=to_none)

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self._call(_REVOKE, line, reason, decode=to_int)

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        key, clear = self._keys.name(line)
        arguments = (clear, count, down, operation, micros(ttl), self._route.channel(key))
        return self._call(_LATCH, line, *arguments, decode=to_int)

    def stock(self, terms: Terms) -> Stockroom:
        return RedisStockroom(self._route, self._keys, terms)

    def _call(self, script: Script, line: LineId, *arguments: bytes | str | int, decode: Decode[_T]) -> Request[_T]:
        return self._route.take(*self._packed(script, line, arguments, decode))

    def _packed(
        self, script: Script, line: LineId, arguments: Sequence[bytes | str | int], decode: Decode[_T]
    ) -> tuple[bytes, Request[_T]]:
        key = self._keys.name(line).key
        payload = script.head(len(arguments)) + b"".join(map(bulk, (key, *arguments)))
        return key, Request(payload, decode, script)

    def _pack_join(
        self, wish: Wish, *, queue: bool = True, instead_of: str = ""
    ) -> tuple[bytes, bytes, bytes, Decode[Answer]]:
        """Return a line's key, as it is and packed, what comes behind the id of a ticket that joins it, and what reads
        the answer."""
        key, clear = self._keys.name(wish.line)
        life, waiting = micros(wish.ttl), micros(waiting_life(wish.ttl))
        numbers = (queue, wish.weight, wish.size, life, waiting, self.capabilities.most_tickets)
        words = (wish.owner.replace("\0", "").encode(), self._route.channel(key), clear, instead_of.encode(), b"")
        packed = _JOIN_TERMS.pack(*numbers) + b"\0".join(words)
        return key, bulk(key), _END + bulk(packed), joined(life / 1e6, wish.size)

    def _pack_leave(self, wish: Wish, *, remembered: int = 0) -> tuple[bytes, bytes, bytes]:
        """Return the same for one that leaves it."""
        key = self._keys.name(wish.line).key
        return key, bulk(key), _END + bulk(_LEAVE_TERMS.pack(remembered) + self._route.channel(key) + b"\0")


class RedisBackend(Lines):
    """One client's connection to one Redis server.

    *prefix* begins every key and channel. *pushes*: whether to subscribe; without it nobody is called, everybody looks.
    *patience*: seconds without a reply after which a connection is given up. *name* is what ``CLIENT LIST`` shows.
    *min_replicas*: how many replicas must have a join or a renewal before it counts; waited for up to a third of
    *patience*.
    """

    def __init__(
        self,
        address: Where,
        *,
        prefix: str = "aiodlock",
        name: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
        min_replicas: int = 0,
    ) -> None:
        self.min_replicas = check_count("min_replicas", min_replicas, least=0)
        calls = Calls(Keys(prefix), pushes=pushes)
        self._node = Node(
            address,
            name=name,
            greet=self._greet,
            on_push=calls.pushed,
            on_up=calls.reconnected,
            hear=calls.hear,
            patience=patience,
        )
        self._nodes, grants = [self._node], None
        if min_replicas:
            self._nodes.append(Node(address, name=name, greet=_expect_master, hear=calls.hear, patience=patience))
            grants = Confirming(self._nodes[1], replicas=min_replicas, within=patience / 3)
        route = Single(self._nodes, calls, grants)
        super().__init__(route, calls, address=str(address))
        self.capabilities = replace(self.capabilities, trusts_calls=not min_replicas)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        unverified: bool = False,
        prefix: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
        min_replicas: int = 0,
    ) -> RedisBackend:
        """Return the backend of ``redis://``, ``rediss://`` or ``unix://``."""
        address = Address.from_url(url, unverified=unverified)
        return cls(address, prefix=prefix, pushes=pushes, patience=patience, min_replicas=min_replicas)

    async def diagnose(self) -> Sequence[Finding]:
        pushes = self.capabilities.pushes
        return await diagnose(self._node, self._keys, pushes=pushes, min_replicas=self.min_replicas)

    async def _greet(self, link: Link) -> None:
        await _expect_master(link)
        await self._calls.subscribe(link)


async def _expect_master(link: Link) -> None:
    if link.role != "master":
        hint = "give the master's address, or redis+sentinel:// to have it found"
        raise BackendUnavailableError(f"{link.where}: the server is a {link.role}: {hint}")
