"""Redis as a backend: verbs become script calls, and the futures they return are the wire's own.

The verbs are written once; which server and which channel a line has is the route's to know.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from aiodlock._core.line import (
    Answer,
    Gone,
    GoneWhy,
    LineId,
    Row,
    Ticket,
    TicketId,
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
from aiodlock.backends.redis.route import Route, Single
from aiodlock.backends.redis.scripts import (
    Script,
    bulk,
    length,
    load,
    micros,
    to_answer,
    to_answers,
    to_int,
    to_none,
)
from aiodlock.backends.redis.stock import RedisStockroom
from aiodlock.backends.redis.wire import Decode, Link
from aiodlock.errors import BackendUnavailableError
from aiodlock.policy import check_count

__all__ = ["Lines", "RedisBackend"]

_T = TypeVar("_T")

_CACHED = 16_384  # lines whose packed beginnings are kept

_JOIN, _LEAVE, _RENEW, _LATCH = load("join"), load("leave"), load("renew"), load("latch")
_WEIGHT, _SIZE, _REVOKE = load("weight"), load("size"), load("revoke")
_JOIN_HEAD, _LEAVE_HEAD = _JOIN.head(6), _LEAVE.head(3)
_NUMBERS = struct.Struct("<5d")  # of a policy, as `join.lua` unpacks them
_END = b"\r\n"
_QUEUE, _AT_ONCE, _NOT_BURIED = bulk(1) + bulk(""), bulk(0) + bulk(""), bulk(0)


class _Heads(NamedTuple):
    """What the two hot commands of one line begin with."""

    key: bytes
    join: bytes
    leave: bytes


class Lines:
    """One client's lines in Redis: every verb, over whatever *route* leads to them."""

    def __init__(self, route: Route, calls: Calls, *, address: str) -> None:
        self.capabilities = Capabilities(pushes=calls.pushes, stock=True)
        self.address = address
        self._route = route
        self._calls = calls
        self._keys = calls.keys
        self._send, self._grant = route.send, route.grant
        # The constant parts of the two hot commands are packed once.
        self._heads = lru_cache(_CACHED)(self._pack_heads)
        self._policy = lru_cache(_CACHED)(self._pack_policy)

    async def open(self, on_call: OnCall) -> None:
        self._calls.on_call = on_call
        await self._route.open()

    async def aclose(self) -> None:
        self._calls.on_call = None
        await self._route.aclose()

    def ping(self) -> Awaitable[None]:
        return self._route.ping()

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        way = _QUEUE if queue else _AT_ONCE
        if instead_of is not None:
            way = bulk(int(queue)) + bulk(instead_of)
        policy = self._policy(ticket.weight, ticket.size, ticket.ttl, ticket.owner)
        (key, head, _), ticket_id = self._heads(ticket.line), ticket.id.encode()
        payload = b"".join((head, length(len(ticket_id)), ticket_id, _END, way, policy))
        return self._grant(key, payload, to_answer, _JOIN.load)

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        remembered = bulk(micros(tombstone_life(ticket.ttl))) if bury else _NOT_BURIED
        (key, _, head), ticket_id = self._heads(ticket.line), ticket.id.encode()
        payload = b"".join((head, length(len(ticket_id)), ticket_id, _END, remembered))
        return self._send(key, payload, to_none, _LEAVE.load)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        batch = Batch(tickets)
        for line, positions in batch.by_line():
            some = [tickets[i] for i in positions]
            arguments = [part for t in some for part in (t.id, micros(t.ttl), micros(t.waiting_life))]
            key, payload = self._pack(_RENEW, line, arguments)
            batch.expect(positions, self._grant(key, payload, to_answers, _RENEW.load))
        return batch.answers

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return inspect(self._route, self._keys, kind, pattern)

    async def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        key, payload = self._pack(_WEIGHT, ticket.line, (ticket.id, weight))
        answer = await self._grant(key, payload, to_answer, _WEIGHT.load)
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

    def _call(
        self, script: Script, line: LineId, *arguments: bytes | str | int, decode: Decode[_T]
    ) -> asyncio.Future[_T]:
        key, payload = self._pack(script, line, arguments)
        return self._send(key, payload, decode, script.load)

    def _pack(self, script: Script, line: LineId, arguments: Sequence[bytes | str | int]) -> tuple[bytes, bytes]:
        key = self._keys.name(line).key
        return key, script.head(len(arguments)) + b"".join(map(bulk, (key, *arguments)))

    def _pack_heads(self, line: LineId) -> _Heads:
        key, clear = self._keys.name(line)
        packed, channel = bulk(key), bulk(self._route.channel(key))
        return _Heads(key, _JOIN_HEAD + packed + bulk(clear) + channel, _LEAVE_HEAD + packed + channel)

    def _pack_policy(self, weight: int, size: int, ttl: float, owner: str) -> bytes:
        numbers = (weight, size, micros(ttl), micros(waiting_life(ttl)), self.capabilities.most_tickets)
        return bulk(_NUMBERS.pack(*numbers) + owner.replace("\0", "").encode() + b"\0")


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
            patience=patience,
        )
        self._nodes, grants = [self._node], None
        if min_replicas:
            self._nodes.append(Node(address, name=name, greet=_expect_master, patience=patience))
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
