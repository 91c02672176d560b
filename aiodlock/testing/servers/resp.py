"""As much of Redis's protocol as setting up servers takes: one question, one answer, no driver."""

from __future__ import annotations

import socket
from typing import IO, TypeAlias, cast

from aiodlock.testing.servers.ports import HOST

__all__ = ["RefusedError", "Reply", "ask", "info"]

Reply: TypeAlias = "bytes | int | list[Reply] | None"


class RefusedError(OSError):
    """The server answered with an error."""


def ask(port: int, *words: str | int, within: float = 5.0) -> Reply:
    """Send one command to the server on the loopback *port* and return its reply; raise `OSError` without one."""
    parts = [str(word).encode() for word in words]
    packed = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    with socket.create_connection((HOST, port), within) as connection:
        connection.sendall(b"*%d\r\n%b" % (len(parts), packed))
        with connection.makefile("rb") as replies:
            return _read(replies)


def info(port: int, section: str, *, within: float = 1.0) -> bytes:
    """Return what a Redis server, or a sentinel, tells of itself."""
    return cast(bytes, ask(port, "INFO", section, within=within))


def _read(replies: IO[bytes]) -> Reply:
    line = replies.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("closed before the reply")
    kind, rest = line[:1], line[1:-2]
    match kind:
        case b"-":
            raise RefusedError(rest.decode())
        case b":":
            return int(rest)
        case b"$":
            return replies.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        case b"*":
            return [_read(replies) for _ in range(int(rest))] if int(rest) >= 0 else None
        case _:
            return rest
