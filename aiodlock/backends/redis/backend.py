"""Redis as a backend: verbs become script calls, and the futures they return are the wire's own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import TypeVar

from aiodlock._core.line import Answer, LineId, Reconnected, Row, Ticket, TicketId, tombstone_life
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Capabilities, OnCall
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.batches import Batch
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.inspect import inspect
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.scripts import (
    Script,
    bulk,
    command,
    load,
    micros,
    to_answer,
    to_answers,
    to_int,
    to_none,
)
from aiodlock.backends.redis.stock import RedisStockroom
from aiodlock.backends.redis.wire import Decode, Link

__all__ = ["RedisBackend"]

_T = TypeVar("_T")

_CACHED = 16_384  # lines whose packed beginnings are kept

_JOIN, _LEAVE, _RENEW, _LATCH = load("join"), load("leave"), load("renew"), load("latch")
_WEIGHT, _SIZE, _REVOKE = load("weight"), load("size"), load("revoke")
_JOIN_HEAD, _LEAVE_HEAD = _JOIN.head(11), _LEAVE.head(3)
_QUEUE, _AT_ONCE, _NOT_BURIED = bulk(1) + bulk(""), bulk(0) + bulk(""), bulk(0)
_PING = command("PING")


class RedisBackend:
    """One client's connection to one Redis server.

    *prefix* begins every key and channel. *pushes*: whether to subscribe; without it nobody is called, everybody looks.
    *patience*: seconds without a reply after which a connection is given up. *name* is what ``CLIENT LIST`` shows.
    """

    def __init__(
        self,
        address: Address,
        *,
        prefix: str = "aiodlock",
        name: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
    ) -> None:
        self.capabilities = Capabilities(pushes=pushes, stock=True)
        self.address = str(address)
        self._keys = Keys(prefix)
        self._calls = Calls(self._keys, secrets.token_urlsafe(9))
        self._channel = self._calls.channel if pushes else b""
        self._node = Node(
            address,
            name=name,
            greet=self._greet,
            on_push=self._calls.pushed,
            on_up=self._reconnected,
            patience=patience,
        )
        # The constant parts of the two hot commands are packed once.
        self._heads = lru_cache(_CACHED)(self._pack_heads)
        self._policy = lru_cache(_CACHED)(self._pack_policy)
        self._asker = bulk(self._channel)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        unverified: bool = False,
        prefix: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
    ) -> RedisBackend:
        """Return the backend of ``redis://``, ``rediss://`` or ``unix://``."""
        return cls(Address.from_url(url, unverified=unverified), prefix=prefix, pushes=pushes, patience=patience)

    async def open(self, on_call: OnCall) -> None:
        self._calls.on_call = on_call
        await self._node.open()

    async def aclose(self) -> None:
        self._calls.on_call = None
        await self._node.aclose()

    def ping(self) -> Awaitable[None]:
        return self._node.send(_PING, to_none)

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        way = _QUEUE if queue else _AT_ONCE
        if instead_of is not None:
            way = bulk(int(queue)) + bulk(instead_of)
        policy = self._policy(ticket.weight, ticket.size, ticket.ttl, ticket.waiting_life, ticket.owner)
        payload = b"".join((self._heads(ticket.line)[0], bulk(ticket.id), way, policy))
        return self._node.send(payload, to_answer, _JOIN.load)

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        remembered = bulk(micros(tombstone_life(ticket.ttl))) if bury else _NOT_BURIED
        payload = b"".join((self._heads(ticket.line)[1], bulk(ticket.id), remembered, self._asker))
        return self._node.send(payload, to_none, _LEAVE.load)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        batch = Batch(tickets)
        for line, positions in batch.by_line():
            some = [tickets[i] for i in positions]
            arguments = [part for t in some for part in (t.id, micros(t.ttl), micros(t.waiting_life))]
            batch.expect(positions, self._call(_RENEW, line, *arguments, decode=to_answers))
        return batch.answers

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return inspect(self._node, self._keys, kind, pattern)

    def change_weight(self, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        return self._call(_WEIGHT, ticket.line, ticket.id, weight, decode=to_answer)

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        return self._call(_SIZE, line, size, decode=to_none)

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self._call(_REVOKE, line, reason, decode=to_int)

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        clear = self._keys.name(line).clear
        arguments = (clear, count, down, operation, micros(ttl), self._channel)
        return self._call(_LATCH, line, *arguments, decode=to_int)

    def stock(self, terms: Terms) -> RedisStockroom:
        return RedisStockroom(self._node, self._keys, terms)

    def _call(
        self, script: Script, line: LineId, *arguments: bytes | str | int, decode: Decode[_T]
    ) -> asyncio.Future[_T]:
        payload = script.head(len(arguments)) + b"".join(map(bulk, (self._keys.name(line).key, *arguments)))
        return self._node.send(payload, decode, script.load)

    def _pack_heads(self, line: LineId) -> tuple[bytes, bytes]:
        key, clear = self._keys.name(line)
        return _JOIN_HEAD + bulk(key) + bulk(clear), _LEAVE_HEAD + bulk(key)

    def _pack_policy(self, weight: int, size: int, ttl: float, life: float, owner: str) -> bytes:
        most = self.capabilities.most_tickets
        owner = owner.replace("\0", "")  # would end a string in the record
        parts = (weight, size, micros(ttl), micros(life), self._channel, owner, most)
        return b"".join(bulk(part) for part in parts)

    async def _greet(self, link: Link) -> None:
        if self.capabilities.pushes:
            await self._calls.subscribe(link)

    def _reconnected(self, via: int) -> None:
        if self._calls.on_call:
            self._calls.on_call(Reconnected(via))
