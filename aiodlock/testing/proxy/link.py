"""One connection through the proxy: a client's socket, a server's socket, and what happens between them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiodlock.testing.proxy.controls import Controls, Lane
from aiodlock.testing.proxy.rules import Harm, HeldBack

__all__ = ["Link", "Stream", "reset"]

Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_Queue: TypeAlias = asyncio.Queue[tuple[float, bytes]]

_CHUNK = 1 << 16
_BACKLOG = 1024  # chunks that may wait in a lane that is delayed or closed; then TCP itself pushes back
_NO_LINGER = struct.pack("ii", 1, 0)


class Link:
    """Carries both directions until the server's side ends, so that a request can arrive after its client has gone."""

    def __init__(self, controls: Controls, *, client: Stream, server: Stream) -> None:
        self._controls = controls
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._doomed = False  # the next reply is dropped, and the connection with it
        self._held: HeldBack | None = None
        self._edit = controls.edit() if controls.edit else None
        self._replies = asyncio.create_task(_carry(controls.replies, self._from_server, self._reply))
        self._requests = asyncio.create_task(self._carry_requests())

    async def run(self) -> None:
        """Return when the connection has ended."""
        try:
            await asyncio.wait([self._replies])
        finally:
            self._replies.cancel()
            self._requests.cancel()
            self._to_client.close()
            self._to_server.close()
            if self._held is not None:
                self._held.settle()

    def cut(self) -> None:
        """End it as a program that closes its sockets does."""
        self._end(_abort, counted="cut")

    def reset(self) -> None:
        """End it as a machine that has forgotten the connection does."""
        self._end(reset, counted="reset")

    def _end(self, sever: Callable[[asyncio.StreamWriter], None], *, counted: str) -> None:
        self._controls.count(counted)
        sever(self._to_client)
        if self._held is None or self._held.delivered:
            sever(self._to_server)
            self._replies.cancel()

    async def _carry_requests(self) -> None:
        try:
            await _carry(self._controls.requests, self._from_client, self._request)
        except Exception as error:  # the client must not wait for what nobody carries any more
            self._controls.errors.append(error)
            self.reset()
        else:
            _finish(self._to_server)

    async def _request(self, request: bytes) -> None:
        rule = self._controls.judge(request)
        if rule is not None and rule.harm is Harm.DROP_REQUEST:
            self._controls.count("requests_dropped")
            self.reset()
            return
        if isinstance(rule, HeldBack):
            self._held = rule
            self._controls.count("held_back")
            await rule.hold(request)
        self._doomed |= rule is not None and rule.harm is Harm.DROP_REPLY
        self._controls.count("requests")
        await _write(self._to_server, request)

    async def _reply(self, reply: bytes) -> None:
        if self._held is not None and self._held.delivered:
            self._held.settle()
        if self._to_client.is_closing():
            return
        if self._doomed:
            self._drop_reply()
        elif reply := self._edit(reply) if self._edit else reply:
            self._controls.count("replies")
            await _write(self._to_client, reply)

    def _drop_reply(self) -> None:
        # A reset towards the server could make its kernel throw away a request that it has not read yet, and then
        # nothing was done there: so it gets a polite end, after all that was forwarded.
        reset(self._to_client)
        self._requests.cancel()
        _finish(self._to_server)
        self._controls.count("replies_dropped")


async def _carry(lane: Lane, reader: asyncio.StreamReader, deliver: Callable[[bytes], Awaitable[None]]) -> None:
    """Move chunks from *reader* through *lane* until the end of the stream, which has to pass the lane as well."""
    queue: _Queue = asyncio.Queue(_BACKLOG)
    feeder = asyncio.create_task(_feed(lane, reader, queue))
    now = asyncio.get_running_loop().time
    try:
        while True:
            due, chunk = await queue.get()
            if due > now():
                await asyncio.sleep(due - now())
            await lane.open.wait()
            if not chunk:
                return
            await deliver(chunk)
    finally:
        feeder.cancel()


async def _feed(lane: Lane, reader: asyncio.StreamReader, queue: _Queue) -> None:
    chunk = b"-"
    while chunk:
        try:
            chunk = await reader.read(_CHUNK)
        except OSError:
            chunk = b""
        await queue.put((asyncio.get_running_loop().time() + lane.delay, chunk))


async def _write(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    with contextlib.suppress(OSError):  # the reading side will see that it is gone
        writer.write(chunk)
        await writer.drain()


def _finish(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.write_eof()


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a socket so that the other side gets a reset: nothing is sent or received any more."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
