"""Routes: which server a line is kept on, and on which channel its calls come. The verbs know no more than this."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.confirmed import Confirming
from aiodlock.backends.redis.node import Node, close_together
from aiodlock.backends.redis.request import Request
from aiodlock.backends.redis.scripts import command, to_none

__all__ = ["PING", "Route", "Single"]

_T = TypeVar("_T")

PING = command("PING")


class Route(Protocol):
    """The way from one client to the servers that keep its lines."""

    async def open(self) -> None: ...

    async def aclose(self) -> None: ...

    def ping(self) -> Awaitable[None]:
        """Be answered by every server that keeps lines."""
        ...

    def channel(self, key: bytes) -> bytes:
        """Return where this client is called for the line at *key*, empty if nowhere; always the same."""
        ...

    def take(self, key: bytes, request: Request[_T]) -> Request[_T]:
        """Send a command to the server that keeps *key*, and return it; its calls are heard before it is done."""
        ...

    def grant(self, key: bytes, request: Request[_T]) -> Request[_T]:
        """Do the same with a join or a renewal, which may need more to count."""
        ...

    def masters(self) -> Sequence[Node]:
        """Return every server that keeps lines."""
        ...


class Single:
    """All lines on one server, all calls on one channel, subscribed when the connection is made.

    The first of *nodes* carries everything, except joins and renewals if there are *grants*.
    """

    def __init__(self, nodes: Sequence[Node], calls: Calls, grants: Confirming | None = None) -> None:
        self._nodes, self._node = nodes, nodes[0]
        self._grants = grants or nodes[0]
        self._channel = calls.channel if calls.pushes else b""

    async def open(self) -> None:
        for node in self._nodes:
            await node.open()

    async def aclose(self) -> None:
        await close_together(self._nodes)

    def ping(self) -> Awaitable[None]:
        return self._node.send(PING, to_none)

    def channel(self, key: bytes) -> bytes:
        return self._channel

    def take(self, key: bytes, request: Request[_T]) -> Request[_T]:
        take = self._node.take
        take(request)
        return request

    def grant(self, key: bytes, request: Request[_T]) -> Request[_T]:
        take = self._grants.take
        take(request)
        return request

    def masters(self) -> Sequence[Node]:
        return (self._node,)
