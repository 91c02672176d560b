"""One client's connection to a memory server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from aiodlock._core.line import Answer, Call, LineId, Reconnected, Row, Ticket, TicketId
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Capabilities, OnCall
from aiodlock.backends.memory.network import Network
from aiodlock.backends.memory.server import MemoryServer
from aiodlock.backends.memory.stock import MemoryStockroom
from aiodlock.clock import Clock
from aiodlock.errors import ConfigurationError

__all__ = ["MemoryBackend"]

_S = TypeVar("_S", bound=Answer | Call)


def _stamp(fact: _S, via: int) -> _S:
    return fact if fact.via == via else replace(fact, via=via)


_shared: dict[str, tuple[MemoryServer, set[MemoryBackend]]] = {}


class MemoryBackend:
    """One client's connection to a memory server.

    Without a name the server is private to this backend; with one it is shared by tasks of one event loop until its
    last client closes.
    """

    capabilities = Capabilities(shared=False, stock=True)

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock | None = None,
        server: MemoryServer | None = None,
        network: Network | None = None,
    ) -> None:
        self.address = f"memory://{name}" if name else f"memory://#{id(server or self):x}"
        self.network = network or Network()
        self.via = 0
        self._name = name
        self._clock = clock
        self._server = server
        self._on_call: OnCall | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> MemoryBackend:
        """Return the backend of ``memory://`` or ``memory://name``."""
        name = url.partition("://")[2]
        if any(c in name for c in "/?#@"):
            raise ConfigurationError(f"memory URL {url!r}: give memory:// or memory://name")
        return cls(name, clock=clock)

    @property
    def server(self) -> MemoryServer:
        if self._server is None:
            if self._name:
                self._server, clients = _shared.setdefault(self._name, (MemoryServer(clock=self._clock), set()))
                clients.add(self)
            else:
                self._server = MemoryServer(clock=self._clock)
        return self._server

    async def open(self, on_call: OnCall) -> None:
        self._on_call, self._loop = on_call, asyncio.get_running_loop()
        _ = self.server
        if any(other._is_elsewhere(self._loop) for other in _shared.get(self._name, (None, ()))[1]):
            raise ConfigurationError(f"{self.address} is in use by another event loop: one loop, or a real server")

    async def aclose(self) -> None:
        self._on_call = None
        self.server.forget(self)
        if self._name in _shared and self in (clients := _shared[self._name][1]):
            clients.remove(self)
            if not clients:
                del _shared[self._name]

    def _is_elsewhere(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop is not None and self._loop is not loop and not self._loop.is_closed()

    def reconnect(self) -> None:
        """Begin a new connection: calls of the old one no longer count, everybody looks again."""
        self.via += 1
        self.push(Reconnected())

    def push(self, call: Call) -> None:
        """Bring *call* to this client, over the connection of this moment."""
        stamped = _stamp(call, self.via)
        self.network.push(lambda: self._on_call(stamped) if self._on_call else None)

    def ping(self) -> Awaitable[None]:
        return self.network.carry("ping", lambda: None)

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        return self._ask("join", lambda: self.server.join(ticket, self, queue=queue, instead_of=instead_of))

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        return self.network.carry("leave", lambda: self.server.leave(ticket, self, bury=bury))

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        via = self.via
        return self.network.carry("renew", lambda: [_stamp(a, via) for a in self.server.renew(tickets) if a])

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return self.network.carry("inspect", lambda: self.server.inspect(kind, pattern))

    def change_weight(self, ticket: Ticket, weight: int) -> Awaitable[Answer]:
        return self._ask("change", lambda: self.server.change_weight(ticket, weight))

    def change_size(self, line: LineId, size: int) -> Awaitable[None]:
        return self.network.carry("change", lambda: self.server.change_size(line, size))

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self.network.carry("revoke", lambda: self.server.revoke(line, reason))

    def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> Awaitable[int]:
        return self.network.carry(
            "latch", lambda: self.server.latch(line, self, count=count, down=down, operation=operation, ttl=ttl)
        )

    def stock(self, terms: Terms) -> MemoryStockroom:
        return MemoryStockroom(self, terms)

    def _ask(self, verb: str, act: Callable[[], Answer]) -> Awaitable[Answer]:
        via = self.via
        return self.network.carry(verb, lambda: _stamp(act(), via))
