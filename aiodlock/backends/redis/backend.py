"""Redis as a backend: verbs become script calls, and the futures they return are the wire's own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import TypeVar

from aiodlock._core.line import Answer, Gone, GoneWhy, LineId, Reconnected, Row, Ticket, TicketId, tombstone_life
from aiodlock.backends.base import Capabilities, Finding, OnCall
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.batches import Batch
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.checks import diagnose
from aiodlock.backends.redis.confirmed import Confirming
from aiodlock.backends.redis.inspect import inspect
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node, Where
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
from aiodlock.backends.redis.wire import Decode, Link
from aiodlock.errors import BackendUnavailableError
from aiodlock.policy import check_count

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
        self.capabilities = Capabilities(pushes=pushes, trusts_calls=not min_replicas)
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
        self._nodes = [self._node]
        self._grants: Node | Confirming = self._node  # what joins and renewals are sent by
        if min_replicas:
            second = Node(address, name=name, greet=_expect_master, patience=patience)
            self._nodes.append(second)
            self._grants = Confirming(second, replicas=min_replicas, within=patience / 3)
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
        min_replicas: int = 0,
    ) -> RedisBackend:
        """Return the backend of ``redis://``, ``rediss://`` or ``unix://``."""
        address = Address.from_url(url, unverified=unverified)
        return cls(address, prefix=prefix, pushes=pushes, patience=patience, min_replicas=min_replicas)

    async def open(self, on_call: OnCall) -> None:
        self._calls.on_call = on_call
        for node in self._nodes:
            await node.open()

    async def aclose(self) -> None:
        self._calls.on_call = None
        for node in self._nodes:
            await node.aclose()

    def ping(self) -> Awaitable[None]:
        return self._node.send(_PING, to_none)

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        way = _QUEUE if queue else _AT_ONCE
        if instead_of is not None:
            way = bulk(int(queue)) + bulk(instead_of)
        policy = self._policy(ticket.weight, ticket.size, ticket.ttl, ticket.waiting_life, ticket.owner)
        payload = b"".join((self._heads(ticket.line)[0], bulk(ticket.id), way, policy))
        return self._grants.send(payload, to_answer, _JOIN.load)

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        remembered = bulk(micros(tombstone_life(ticket.ttl))) if bury else _NOT_BURIED
        payload = b"".join((self._heads(ticket.line)[1], bulk(ticket.id), remembered, self._asker))
        return self._node.send(payload, to_none, _LEAVE.load)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        batch = Batch(tickets)
        for line, positions in batch.by_line():
            some = [tickets[i] for i in positions]
            arguments = [part for t in some for part in (t.id, micros(t.ttl), micros(t.waiting_life))]
            payload = self._pack(_RENEW, line, arguments)
            batch.expect(positions, self._grants.send(payload, to_answers, _RENEW.load))
        return batch.answers

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return inspect(self._node, self._keys, kind, pattern)

    async def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        payload = self._pack(_WEIGHT, ticket.line, (ticket.id, weight))
        answer = await self._grants.send(payload, to_answer, _WEIGHT.load)
        if isinstance(answer, Gone) and answer.why is GoneWhy.UNCONFIRMED:  # it tells of a life, as a renewal does
            raise BackendUnavailableError(f"{self.address}: {answer.why.value}")
        return answer

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        return self._call(_SIZE, line, size, decode=to_none)

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self._call(_REVOKE, line, reason, decode=to_int)

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        clear = self._keys.name(line).clear
        arguments = (clear, count, down, operation, micros(ttl), self._channel)
        return self._call(_LATCH, line, *arguments, decode=to_int)

    async def diagnose(self) -> Sequence[Finding]:
        pushes = self.capabilities.pushes
        return await diagnose(self._node, self._keys, pushes=pushes, min_replicas=self.min_replicas)

    def _call(
        self, script: Script, line: LineId, *arguments: bytes | str | int, decode: Decode[_T]
    ) -> asyncio.Future[_T]:
        return self._node.send(self._pack(script, line, arguments), decode, script.load)

    def _pack(self, script: Script, line: LineId, arguments: Sequence[bytes | str | int]) -> bytes:
        return script.head(len(arguments)) + b"".join(map(bulk, (self._keys.name(line).key, *arguments)))

    def _pack_heads(self, line: LineId) -> tuple[bytes, bytes]:
        key, clear = self._keys.name(line)
        return _JOIN_HEAD + bulk(key) + bulk(clear), _LEAVE_HEAD + bulk(key)

    def _pack_policy(self, weight: int, size: int, ttl: float, life: float, owner: str) -> bytes:
        most = self.capabilities.most_tickets
        owner = owner.replace("\0", "")  # would end a string in the record
        parts = (weight, size, micros(ttl), micros(life), self._channel, owner, most)
        return b"".join(bulk(part) for part in parts)

    async def _greet(self, link: Link) -> None:
        await _expect_master(link)
        if self.capabilities.pushes:
            await self._calls.subscribe(link)

    def _reconnected(self, via: int) -> None:
        if self._calls.on_call:
            self._calls.on_call(Reconnected(via))


async def _expect_master(link: Link) -> None:
    if link.role != "master":
        hint = "give the master's address, or redis+sentinel:// to have it found"
        raise BackendUnavailableError(f"{link.where}: the server is a {link.role}: {hint}")
