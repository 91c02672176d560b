"""One connection to one ZooKeeper server: requests out, replies matched by number, watches in.

The messages are aiozk's, the connection is not: aiozk's own ends silently when the server closes it, has no deadline
for a reply, asks for the version over a second connection without one either, and starts several tasks per reply (three
times the CPU of a request here: 150 against 50 microseconds, many at once). A guard around it cures the first only.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar, cast

from aiozk import exc, protocol

from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError

__all__ = ["Decode", "Link", "OnAnswer", "OnWatch", "heard", "no_result", "settled"]

_T = TypeVar("_T")
Decode: TypeAlias = Callable[[Any], _T]
"""Makes a result of aiozk's reply; what it raises is the result."""
OnWatch: TypeAlias = Callable[[int, str], None]
"""Is told the type of an event and its path."""
OnAnswer: TypeAlias = Callable[[Any, float, float], None]
"""Is told aiozk's kind of a reply that is no refusal, when its request was sent, and when the reply was read."""

_Reply: TypeAlias = "asyncio.Future[Any]"

_SIZE = struct.Struct("!i")
_HEADER = struct.Struct("!iqi")  # number of the request, last change the server has seen, error
_LARGEST = 64 << 20
_LAST_NUMBER = 0x7FFF_FFFF
_CHECKS = 4  # so many times a request is found unanswered before the connection is given up
_RESET = struct.pack("ii", 1, 0)

_EXPECTED = (exc.NoNode, exc.NodeExists, exc.BadVersion, exc.NotEmpty)  # answers, not failures
_GONE = (exc.SessionExpired, exc.SessionMoved, exc.ConnectionLoss, exc.OperationTimeout)


class Link(asyncio.Protocol):
    """A connection from dial to loss. Nothing is sent twice, and nothing after the loss.

    *patience*: seconds without a reply after which it is given up. *on_answer* is told before
    whoever waits for the reply.
    """

    def __init__(
        self,
        where: str,
        *,
        via: int,
        now: Callable[[], float],
        patience: float,
        on_watch: OnWatch,
        on_answer: OnAnswer,
    ) -> None:
        self.where = where
        self.via = via
        self.reason = ""  # why it was lost
        self.last_zxid = 0
        self._now = now
        self._on_watch = on_watch
        self._on_answer = on_answer
        self._patience = patience
        self._pings_after = patience
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._received = bytearray()
        self._number = 0
        self._greeting: _Reply | None = None
        self._pending: dict[int, tuple[_Reply, Any, Decode[Any], float]] = {}  # in the order of sending
        self._kept: bytearray | None = None  # what is to be sent together
        self._oldest: _Reply | None = None
        self._overdue = 0
        self._answered_at = now()
        self._lost = asyncio.Event()
        self._closed = asyncio.Event()

    async def greet(self, *, session: int, password: bytes, session_time: float, last_zxid: int) -> Any:
        """Say which session this is, 0 for a new one; return the server's answer."""
        self.last_zxid = last_zxid
        self._greeting = self._loop.create_future()
        hello = protocol.ConnectRequest(
            protocol_version=0,
            last_seen_zxid=last_zxid,
            timeout=int(session_time * 1000),
            session_id=session,
            password=password,
            read_only=False,
        ).serialize()
        self._transport.write(_SIZE.pack(len(hello)) + hello)
        answer = await self._greeting
        self._pings_after = answer.timeout / 6000
        return answer

    def send(self, request: Any, decode: Decode[_T]) -> asyncio.Future[_T]:
        """Send at once and return the future result.

        It fails with `BackendUnavailableError` when the connection is lost before the reply. What the server refuses
        comes as aiozk's error where callers expect it (no such node, wrong version, ...), as `BackendError` otherwise.
        """
        reply: asyncio.Future[_T] = self._loop.create_future()
        if self.reason:
            reply.set_exception(BackendUnavailableError(f"{self.where}: {self.reason}"))
            return reply
        number = request.special_xid or self._next_number()
        self._pending[number] = (reply, protocol.response_xref[request.opcode], decode, self._now())
        payload = request.serialize(number)
        frame = _SIZE.pack(len(payload)) + payload
        if self._kept is None:
            self._transport.write(frame)
        else:
            self._kept += frame
        return reply

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send in one write what is sent inside the block, which must not wait."""
        self._kept = bytearray()
        try:
            yield
        finally:
            kept, self._kept = self._kept, None
            if not self.reason:
                self._transport.write(kept)

    async def lost(self) -> str:
        """Return the reason when the connection is lost."""
        await self._lost.wait()
        return self.reason

    def abort(self, reason: str) -> None:
        """Close a connection in doubt with a reset, not politely: neither side waits for the other."""
        if self.reason:
            return
        self._end(reason)
        if (sock := self._transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    async def aclose(self) -> None:
        """Close it, and wait until the socket is gone."""
        self.abort("closed")
        await self._closed.wait()

    # --- asyncio.Protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._loop.call_later(self._patience / _CHECKS, self._check)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error or "") or "closed by the server")
        self._closed.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        at, received = 0, self._received
        while len(received) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(received, at)
            if not 0 <= size <= _LARGEST:
                self.abort(f"unexpected length {size}: is this a ZooKeeper server?")
                return
            if len(received) - at - _SIZE.size < size:
                break
            at += _SIZE.size + size
            self._read(bytes(received[at - size : at]))
        del received[:at]

    # --- in --------------------------------------------------------------------------------------------------

    def _read(self, frame: bytes) -> None:
        try:
            if self._greeting is not None and not self._greeting.done():
                self._greeting.set_result(protocol.ConnectResponse.deserialize(frame))
            else:
                self._read_reply(frame)
        except Exception as error:
            self.abort(f"unexpected reply: {error!r}")

    def _read_reply(self, frame: bytes) -> None:
        number, zxid, code = _HEADER.unpack_from(frame)
        if number == protocol.WATCH_XID:
            event = protocol.WatchEvent.deserialize(frame[_HEADER.size :])
            if event.type > 0:
                # Behind the callbacks of the replies before it: what was said first is heard first.
                self._loop.call_soon(self._on_watch, event.type, event.path)
            return
        self.last_zxid = max(self.last_zxid, zxid)
        reply, kind, decode, sent_at = self._pending.pop(number)
        self._answered_at = self._now()
        if reply.done():
            return
        if code and kind is not protocol.TransactionResponse:
            self._refuse(reply, code)
            return
        answer = kind.deserialize(frame[_HEADER.size :])
        try:
            reply.set_result(decode(answer))
        except (exc.ZKError, BackendError) as error:
            reply.set_exception(error)
        else:
            self._on_answer(kind, sent_at, self._answered_at)

    def _refuse(self, reply: _Reply, code: int) -> None:
        kind = exc.response_error_xref.get(code)
        if kind is not None and issubclass(kind, _EXPECTED):
            reply.set_exception(kind())
            return
        reply.set_exception(_as_error(self.where, kind, code))
        if kind in _GONE:
            self.abort(f"refused: {kind.__name__}")

    # --- out and the end ---------------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self._number = self._number + 1 if self._number < _LAST_NUMBER else 1
        return self._number

    def _check(self) -> None:
        self._timer = self._loop.call_later(self._patience / _CHECKS, self._check)
        oldest = next(iter(self._pending.values()))[0] if self._pending else self._greeting
        waits = oldest is not None and not oldest.done()
        # Counted, not measured: a process that was frozen has not yet read what came meanwhile.
        self._overdue = self._overdue + 1 if waits and oldest is self._oldest else 0
        self._oldest = oldest if waits else None
        if self._overdue >= _CHECKS:
            self.abort("no reply in time")
        elif not waits and self._now() - self._answered_at >= self._pings_after - self._patience / _CHECKS:
            self.send(protocol.PingRequest(), no_result).add_done_callback(heard)

    def _end(self, reason: str) -> None:
        if self.reason:
            return
        self.reason = reason
        self._lost.set()
        self._timer.cancel()
        waiting = [reply for reply, *_ in self._pending.values()]
        for reply in (*waiting, *((self._greeting,) if self._greeting else ())):
            if not reply.done():
                reply.set_exception(BackendUnavailableError(f"{self.where}: {reason}, before the reply"))
        self._pending.clear()


def no_result(_: object) -> None:
    """Decode a reply that says nothing."""


async def settled(*replies: asyncio.Future[Any]) -> None:
    """Wait for all of them, whatever comes of them; no error is left unseen."""
    try:
        for reply in reversed(replies):  # they come in the order of the requests: usually all are there with the last
            if not reply.done():
                with suppress(Exception):
                    await reply
    finally:
        for reply in replies:
            if reply.done():
                heard(reply)
            else:
                reply.add_done_callback(heard)


def heard(reply: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for."""
    if not reply.cancelled():
        reply.exception()


def _as_error(where: str, kind: Any, code: int) -> BackendError:
    name = kind.__name__ if kind else f"error {code}"
    if kind in _GONE:
        return BackendUnavailableError(f"{where}: {name}")
    if kind in (exc.NoAuth, exc.AuthFailed, exc.InvalidACL):
        return BackendError(f"{where}: {name}; give user and password of the nodes' owner: zk://user:password@host")
    if kind in (exc.MarshallingError, exc.BadArguments, exc.Unimplemented):
        return BackendDataError(f"{where}: {name}; aiodlock needs ZooKeeper 3.5 or newer")
    return BackendError(f"{where}: {name}")
