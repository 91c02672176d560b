"""Harness and worker talk in lines of JSON over a socket pair: a worker's stdout belongs to the lock it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any, TypeAlias

__all__ = ["Channel", "Message"]

Message: TypeAlias = dict[str, Any]


class Channel:
    """One end. Only one task reads it."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._unread = b""

    async def tell(self, word: str, **facts: object) -> None:
        """Say it; when this returns, the other end can read it."""
        line = json.dumps({"word": word, **facts}).encode() + b"\n"
        await asyncio.get_running_loop().sock_sendall(self._socket, line)

    async def hear(self, word: str) -> Message:
        """Return the next message, which has to be *word*."""
        message = await self._next()
        if message["word"] != word:
            raise RuntimeError(message.get("why") or f"expected {word!r}, heard {message['word']!r}")
        return message

    async def closed(self) -> None:
        """Wait until the other end is gone."""
        with contextlib.suppress(ConnectionError):
            await self._next()

    def close(self) -> None:
        self._socket.close()

    async def _next(self) -> Message:
        while b"\n" not in self._unread:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16)
            if not data:
                raise ConnectionError("the other end is gone")
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        message: Message = json.loads(line)
        return message
