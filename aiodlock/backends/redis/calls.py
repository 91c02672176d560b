"""Calls: what the server pushes to this client, on one channel over the command connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiodlock._core.line import AskedToGo, Call, Called, CompanyCame, Opened, TicketGone, TicketId
from aiodlock.backends.base import OnCall
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendUnavailableError

__all__ = ["Calls"]


class Calls:
    """One client's channel. No join goes out before its subscription is confirmed, or a call could be missed."""

    def __init__(self, keys: Keys, client: str) -> None:
        self.channel = keys.channel(client)
        self.on_call: OnCall | None = None
        self._keys = keys
        self._confirmed = False
        self._readers: dict[bytes, Callable[[bytes, int], Call]] = {
            b"I": self._called,
            b"C": lambda rest, via: CompanyCame(_ticket(rest), via),
            b"G": lambda rest, via: TicketGone(_ticket(rest), via),
            b"A": _asked,
            b"O": lambda rest, via: Opened(self._keys.parse(rest), via),
        }

    async def subscribe(self, link: Link) -> None:
        """Subscribe on a fresh connection and return when the server says so."""
        self._confirmed = False
        # The confirmation is a push, not a reply: the PING behind it is answered after it, or by a refusal.
        await link.send(command("SUBSCRIBE", self.channel) + command("PING"), to_none)
        if not self._confirmed:
            raise BackendUnavailableError(f"{link.where}: subscription to {self.channel.decode()} not confirmed")

    def pushed(self, push: list[Any], via: int) -> None:
        """Take what came over connection *via*."""
        if push[0] == b"message" and self.on_call:
            self.on_call(self._read(push[2], via))
        elif push[0] == b"subscribe":
            self._confirmed = True

    def _read(self, message: bytes, via: int) -> Call:
        word, _, rest = message.partition(b" ")
        return self._readers[word](rest, via)

    def _called(self, rest: bytes, via: int) -> Call:
        epoch, company, line, ticket = rest.split(b" ", 3)
        return Called(self._keys.parse(line), _ticket(ticket), int(epoch), company == b"1", via)


def _ticket(raw: bytes) -> TicketId:
    return TicketId(raw.decode())


def _asked(rest: bytes, via: int) -> Call:
    length, _, rest = rest.partition(b" ")
    return AskedToGo(_ticket(rest[: int(length)]), rest[int(length) :].decode(), via)
