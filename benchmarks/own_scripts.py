"""How fast a Redis runs our own two scripts: ``join`` and ``leave`` as the backend sends them, 64 in flight.

``redis-benchmark`` repeats one command, and a ``leave`` ends the stand of one ``join`` only. So the commands are packed
here before the clock starts, and written to a blocking socket, 64 at a time; hiredis reads the replies in bulk.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import hiredis

from aiodlock._core.line import LineId, Ticket, TicketId, Wish
from aiodlock.backends.redis.backend import Lines
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.request import Request
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import load

__all__ = ["own_scripts"]

_KEYS = 100


class _Packing:
    """A route that leads nowhere: verbs return what they would have sent, each in a call of its own."""

    def channel(self, key: bytes) -> bytes:
        return b"aiodlock:calls:0123456789abcdef"

    def take(self, key: bytes, request: Request[Any]) -> bytes:
        assert request.script is not None
        return request.script.head(2) + request.key + request.payload

    grant = take


def own_scripts(url: str, *, in_flight: int, pairs: int) -> float:
    """Return how many pairs per second one connection gets done: a join that enters an empty line, and its leave."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        talk = _talk(connection)
        talk(load("join").load + load("leave").load, 2)
        commands = _packed(pairs)
        writes = [commands[i : i + in_flight] for i in range(0, len(commands), in_flight)]
        packed = [(b"".join(some), len(some)) for some in writes]
        began = time.perf_counter()
        answers = [talk(*write) for write in packed]
        took = time.perf_counter() - began
    entered = sum(isinstance(reply[0], int) for replies in answers for reply in replies)  # an epoch
    assert entered == pairs, answers[0]
    return pairs / took


def _packed(pairs: int) -> list[bytes]:
    lines = Lines(cast("Route", _Packing()), Calls(Keys(), pushes=True), address="")
    wishes = [Wish(LineId("lock", f"limit-{n}"), owner="limit") for n in range(_KEYS)]
    tickets = [Ticket(wishes[n % _KEYS], TicketId(f"{n:016x}")) for n in range(pairs)]
    verbs: list[Awaitable[Any]] = [verb for ticket in tickets for verb in (lines.join(ticket), lines.leave(ticket))]
    return cast("list[bytes]", verbs)


def _talk(connection: socket.socket) -> Callable[[bytes, int], Sequence[Any]]:
    reader = hiredis.Reader()

    def talk(payload: bytes, count: int) -> Sequence[Any]:
        connection.sendall(payload)
        replies: list[Any] = []
        while len(replies) < count:
            reader.feed(connection.recv(65_536))
            while (reply := reader.gets()) is not False:
                replies.append(reply)
        return replies

    return talk
