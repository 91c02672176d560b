"""The least Redis client there is: one blocking socket, no driver. For the limits and for looking on from outside."""

from __future__ import annotations

import socket
from typing import TypeAlias
from urllib.parse import urlsplit

__all__ = ["Reply", "Wire"]

Reply: TypeAlias = "bytes | int | float | list[Reply] | None"


class Wire:
    """One connection. Calls block; whoever has something else to do meanwhile needs a real client."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port or 6379))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def call(self, *words: str | bytes | int) -> Reply:
        self._socket.sendall(_packed(words))
        return self.read()

    def read(self) -> Reply:
        """Return the next reply, or the next push."""
        kind, rest = _split(self._replies.readline())
        match kind:
            case b"+":
                return rest
            case b"-":
                raise RuntimeError(rest.decode())
            case b":":
                return int(rest)
            case b",":
                return float(rest)
            case b"_":
                return None
            case b"$" | b"=":
                return self._bulk(int(rest))
            case b"*" | b">" | b"~":
                return [self.read() for _ in range(int(rest))]
            case b"%":
                return [self.read() for _ in range(2 * int(rest))]
        raise RuntimeError(f"not a Redis reply: {kind + rest!r}")

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def _bulk(self, size: int) -> bytes | None:
        return None if size < 0 else self._replies.read(size + 2)[:-2]


def _split(line: bytes) -> tuple[bytes, bytes]:
    if not line:
        raise ConnectionError("the server closed the connection")
    return line[:1], line[1:-2]


def _packed(words: tuple[str | bytes | int, ...]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)
