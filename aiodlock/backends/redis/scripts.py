"""The scripts of the line: loaded from ``lua/``, called by SHA, their answers decoded here and nowhere else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from aiodlock._core.line import Answer, Gone, GoneWhy, Inside, LineId, Row, TicketId, Waiting

__all__ = [
    "LENGTHS",
    "Script",
    "bulk",
    "command",
    "joined",
    "load",
    "micros",
    "to_answer",
    "to_answers",
    "to_hello",
    "to_int",
    "to_none",
    "to_row",
]

_INCLUDE = re.compile(r"^ *--#include (\w+\.lua)$", re.MULTILINE)
_WHY = {
    b"buried": GoneWhy.BURIED,
    b"expired": GoneWhy.EXPIRED,
    b"heavy": GoneWhy.TOO_HEAVY,
    b"busy": GoneWhy.BUSY,
    b"full": GoneWhy.FULL,
}


LENGTHS = tuple(b"$%d\r\n" % size for size in range(256))
"""What a short packed argument begins with, by its size."""


def bulk(value: bytes | str | int) -> bytes:
    """Return one packed argument of a command."""
    raw = value if isinstance(value, bytes) else str(value).encode()
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def command(*arguments: bytes | str | int) -> bytes:
    """Return a packed command."""
    return b"*%d\r\n%b" % (len(arguments), b"".join(map(bulk, arguments)))


def micros(seconds: float) -> int:
    """Return a time as the scripts take it, at least one microsecond."""
    return max(1, round(seconds * 1e6))


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """A script over one key or a few of one slot, and how it is called."""

    name: str
    text: str
    sha: str
    load: bytes  # packed, sent when the server does not know the script

    @classmethod
    def of(cls, name: str, text: str) -> Script:
        return cls(name, text, hashlib.sha1(text.encode()).hexdigest(), command("SCRIPT", "LOAD", text))

    def head(self, arguments: int, *, keys: int = 1) -> bytes:
        """Return the packed beginning of a call; so many keys and arguments follow."""
        return b"*%d\r\n%b" % (3 + keys + arguments, bulk("EVALSHA") + bulk(self.sha) + bulk(keys))


@cache
def load(name: str) -> Script:
    """Read ``lua/<name>.lua``."""
    return Script.of(name, _read(f"{name}.lua"))


def _read(file: str) -> str:
    text = resources.files(__package__).joinpath("lua", file).read_text("utf-8")
    return _INCLUDE.sub(lambda found: _read(found[1]), text)


# --- answers; `via` is the connection they came over -------------------------------------------------------


def to_answer(reply: Any, via: int) -> Answer:
    """Decode what join, renew and weight answer for one ticket."""
    state = reply[0]
    if state == b"inside":
        return Inside(reply[1], reply[2] / 1e6, reply[3] == 1, reply[4], via)
    if state == b"waiting":
        return Waiting(reply[1], reply[2] / 1e6, reply[3], _holder(reply, 5), reply[4], via)
    return Gone(_WHY[state], _holder(reply, 1), via)


def joined(ttl: float, size: int) -> Callable[[Any, int], Answer]:
    """Return what decodes the answer to a join: for one who is inside alone it is nothing but the epoch."""

    def decode(reply: Any, via: int) -> Answer:
        return Inside(reply, ttl, False, size, via) if type(reply) is int else to_answer(reply, via)

    return decode


def _holder(reply: list[Any], position: int) -> str | None:
    return reply[position].decode() if len(reply) > position else None


def to_answers(reply: Any, via: int) -> list[Answer]:
    """Decode what renew answers."""
    return [to_answer(one, via) for one in reply]


def to_int(reply: Any, via: int) -> int:
    """Decode a number."""
    return int(reply)


def to_hello(reply: Any, via: int) -> str:
    """Decode the role of a server that was greeted; a sentinel has none, and says so by its mode."""
    return str(reply.get(b"role", reply[b"mode"]).decode())


def to_none(reply: Any, via: int) -> None:
    """Take any reply that is no error for done."""


def to_row(line: LineId, row: list[Any]) -> Row:
    """Decode one row of inspect."""
    ticket, owner, weight, since, remaining, epoch = row
    return Row(
        kind=line.kind,
        key=line.key,
        id=TicketId(ticket.decode()),
        owner=owner.decode(),
        inside=epoch > 0,
        weight=weight,
        since=since / 1e6,
        remaining=remaining / 1e6,
        epoch=epoch or None,
    )
