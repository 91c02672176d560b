"""Calls: what the server pushes to this client over the command connection."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

from aiodlock._core.line import AskedToGo, Call, Called, CompanyCame, Opened, Reconnected, TicketGone, TicketId
from aiodlock.backends.base import OnCall
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.wire import Link

__all__ = ["Calls"]

_CACHED = 4096  # lines whose names are kept as read
_MESSAGES = (b"message", b"smessage")


class Calls:
    """What one client is called by: its name in channels, and who hears what comes there."""

    def __init__(self, keys: Keys, *, pushes: bool = True) -> None:
        self.keys = keys
        self.pushes = pushes
        self.client = secrets.token_urlsafe(9)
        self.channel = keys.channel(self.client)
        self.on_call: OnCall | None = None
        self.hearing: AbstractContextManager[None] = nullcontext()
        self._line = lru_cache(_CACHED)(keys.parse)
        self._readers: dict[bytes, Callable[[bytes, int], Call]] = {
            b"I": self._called,
            b"C": lambda rest, via: CompanyCame(_ticket(rest), via),
            b"G": lambda rest, via: TicketGone(_ticket(rest), via),
            b"A": _asked,
            b"O": lambda rest, via: Opened(self.keys.parse(rest), via),
        }

    async def subscribe(self, link: Link) -> None:
        """Subscribe on a fresh connection: no join goes out before that is confirmed, or a call could be missed."""
        if self.pushes:
            await link.send(command("SUBSCRIBE", self.channel), to_none)

    def hear(self, read: Callable[[], None]) -> None:
        """Take in what arrived together."""
        with self.hearing:
            read()

    def pushed(self, push: list[Any], via: int) -> None:
        """Take what came over connection *via*."""
        if push[0] in _MESSAGES and self.on_call:
            word, _, rest = push[2].partition(b" ")
            self.on_call(self._readers[word](rest, via))

    def reconnected(self, via: int) -> None:
        """Tell that calls may have been missed."""
        if self.on_call:
            self.on_call(Reconnected(via))

    def _called(self, rest: bytes, via: int) -> Call:
        epoch, company, line, ticket = rest.split(b" ", 3)
        return Called(self._line(line), _ticket(ticket), int(epoch), company == b"1", via)


def _ticket(raw: bytes) -> TicketId:
    return TicketId(raw.decode())


def _asked(rest: bytes, via: int) -> Call:
    length, _, rest = rest.partition(b" ")
    return AskedToGo(_ticket(rest[: int(length)]), rest[int(length) :].decode(), via)
