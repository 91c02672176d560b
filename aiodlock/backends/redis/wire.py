"""The wire: all commands of a client on one RESP3 connection, pushes on the same socket.

Commands of one loop tick go out in one write, and after every few of them, so that server and client work at the same
time. Replies come in order. A caller may cancel its future: the reply is then read and dropped, and the stream goes on.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import hiredis

from aiodlock.backends.base import Reply
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError

__all__ = ["Decode", "Entry", "Link", "OnPush", "OnRefused"]

_T = TypeVar("_T")
Decode: TypeAlias = Callable[[Any, int], _T]
OnPush: TypeAlias = Callable[[list[Any], int], None]
# A command under way: who waits for its reply, how to read that, the packed command, the script it may lack.
Entry: TypeAlias = tuple[Reply[Any], Decode[Any], bytes, bytes | None]
OnRefused: TypeAlias = Callable[[Entry, str], bool]

_CHUNK = 24
_MOST_IN_FLIGHT = 1024  # commands without a reply; more wait here, unsent
_MOST_WAITING = 100_000
_POLITE = 0.5  # seconds that closing waits for the peer

_MORE = object()
_PUSH, _ERROR = hiredis.PushNotification, hiredis.ReplyError
_CONFIRMS = (b"subscribe", b"ssubscribe")  # pushes that answer a command, in its place among the replies
_PING = command("PING")
_RESET = struct.pack("ii", 1, 0)  # linger for no time: close with a reset
_NOT_NOW = frozenset({
    "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN",
})  # fmt: skip


class Link(asyncio.Protocol):
    """One connection, from connected to lost; `via` numbers it.

    It is lost when the peer says so, and aborted when a reply is overdue by *patience* seconds; after a silence a PING
    asks. Then every command without a reply fails: it may or may not have happened.

    *on_refused* sees every error reply first; what it takes care of (a command that belongs elsewhere) does not fail.
    """

    def __init__(
        self, where: str, *, via: int, on_push: OnPush, patience: float, on_refused: OnRefused | None = None
    ) -> None:
        self.where = where
        self.via = via
        self.loop = asyncio.get_running_loop()
        self.reason = ""  # why it was lost
        self.role = ""  # what the server says of itself: master, replica, sentinel
        self._lost = asyncio.Event()
        self._closed = asyncio.Event()
        self._on_push = on_push
        self._on_refused = on_refused
        self._transport: asyncio.Transport
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._pending: deque[Entry] = deque()
        self._backlog: deque[Entry] = deque()
        self._loading: set[bytes] = set()
        self._unloadable: set[bytes | None] = set()
        self._out: list[bytes] = []
        self._paused = False
        self._scheduled = False
        self._in_tick = 0
        self._last_tick = 1
        self._quiet = 0  # checks since anything was heard
        self._overdue = 0  # checks that found the same command unanswered
        self._oldest: Entry | None = None
        self._interval = patience / 3
        self._timer: asyncio.TimerHandle

    def send(self, payload: bytes, decode: Decode[_T], load: bytes | None = None) -> Reply[_T]:
        """Send a packed command; the future gets its decoded reply.

        A reply ``NOSCRIPT`` means that nothing was done: it is cured by sending *load*, and the command again.
        """
        reply: Reply[_T] = Reply(loop=self.loop)
        self.take((reply, decode, payload, load))
        return reply

    def take(self, entry: Entry) -> None:
        """Send a command that somebody waits for already."""
        if not (self._paused or self._backlog or self.reason) and len(self._pending) < _MOST_IN_FLIGHT:
            self._write(entry)
        elif not self.reason and len(self._backlog) < _MOST_WAITING:
            self._backlog.append(entry)
        else:
            reason = self.reason or f"{_MOST_WAITING} commands wait already"
            entry[0].fail(BackendUnavailableError(f"{self.where}: {reason}"))

    async def aclose(self, reason: str) -> None:
        """Close politely if nothing is in doubt; in any case soon."""
        if self._pending:
            self.abort(reason)
        self._end(reason)
        self._transport.close()
        try:
            async with asyncio.timeout(_POLITE):
                await self._closed.wait()
        except TimeoutError:
            pass
        finally:
            self._transport.abort()

    @property
    def peer(self) -> tuple[str, int] | None:
        """Host and port at the other end; None for a unix socket."""
        peer = self._transport.get_extra_info("peername")
        return (peer[0], peer[1]) if isinstance(peer, tuple) else None

    async def lost(self) -> str:
        """Wait for the end and return its reason."""
        await self._lost.wait()
        return self.reason

    def abort(self, reason: str) -> None:
        """Close a connection in doubt with a reset, not politely: neither side waits for the other."""
        if self.reason:
            return
        self._end(reason)
        if (sock := self._transport.get_extra_info("socket")) is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    # --- asyncio.Protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self.loop.call_later(self._interval, self._check)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error or "") or "closed by the server")
        self._closed.set()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._advance()

    def data_received(self, data: bytes) -> None:
        self._quiet = 0
        self._reader.feed(data)
        while not self.reason:
            try:
                self._read()
                break
            except hiredis.ProtocolError as error:
                self.abort(f"unexpected reply: {error!r}")
            except Exception as error:  # of whoever heard it: the stream goes on
                self.loop.call_exception_handler({"message": "hearing a reply failed", "exception": error})
        if self._backlog:
            self._advance()

    # --- out -------------------------------------------------------------------------------------------------

    def _write(self, entry: Entry) -> None:
        # Alone on the wire: at once. But the first of many would travel alone, and the others wait for its reply.
        at_once = not self._pending and self._last_tick <= 1
        self._pending.append(entry)
        if at_once:
            self._transport.write(entry[2])
            return
        self._out.append(entry[2])
        if len(self._out) >= _CHUNK:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._scheduled = False
        self._flush()
        self._last_tick, self._in_tick = self._in_tick, 0

    def _flush(self) -> None:
        if self._out and not self.reason:
            self._in_tick += len(self._out)
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def _advance(self) -> None:
        while self._backlog and not self._paused and len(self._pending) < _MOST_IN_FLIGHT:
            entry = self._backlog.popleft()
            if not entry[0].done():
                self._write(entry)

    # --- in --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        gets, pending, via = self._reader.gets, self._pending, self.via
        while (reply := gets()) is not _MORE:
            if type(reply) is _PUSH and reply[0] not in _CONFIRMS:
                self._on_push(reply, via)
                continue
            if not pending:
                raise hiredis.ProtocolError("nothing was asked")
            entry = pending.popleft()
            if type(reply) is _ERROR:
                self._refused(entry, str(reply))
                continue
            try:
                answer = entry[1](reply, via)
            except Exception as error:
                entry[0].fail(_chained(BackendDataError(f"{self.where}: unexpected answer {reply!r}"), error))
            else:
                entry[0].arrive(answer)

    def _refused(self, entry: Entry, error: str) -> None:
        answer, _, _, load = entry
        if answer.done():
            return
        code = error.partition(" ")[0]
        if code == "NOSCRIPT" and load is not None and load not in self._unloadable:
            self._load(load)
            self.take(entry)
            return
        self._unloadable.discard(load)
        if self._on_refused is not None and self._on_refused(entry, error):
            return
        answer.fail(_as_error(self.where, code, error))
        if code == "READONLY":  # demoted: another server has the lines now, and a new connection may reach it
            self.abort(error)

    def _load(self, load: bytes) -> None:
        """Send a script, once for all commands that met its absence."""
        if load not in self._loading:
            self._loading.add(load)
            self.send(load, to_none).add_done_callback(lambda done: self._loaded(load, done))

    def _loaded(self, load: bytes, done: asyncio.Future[None]) -> None:
        self._loading.discard(load)
        if done.exception():
            self._unloadable.add(load)

    # --- the end ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        self._timer = self.loop.call_later(self._interval, self._check)
        oldest = self._pending[0] if self._pending else None
        self._overdue = self._overdue + 1 if oldest is not None and oldest is self._oldest else 0
        self._oldest = oldest
        self._quiet += 1
        if self._overdue >= 3:
            self.abort("no reply in time")
        elif oldest is None and self._quiet >= 3:
            self.send(_PING, to_none).add_done_callback(lambda done: done.exception())

    def _end(self, reason: str) -> None:
        if self.reason:
            return
        self.reason = reason
        self._lost.set()
        self._timer.cancel()
        unanswered = [*self._pending, *self._backlog]
        self._pending.clear()
        self._backlog.clear()
        for entry in unanswered:
            entry[0].fail(BackendUnavailableError(f"{self.where}: {reason}, before the reply"))


def _chained(error: BackendError, cause: Exception) -> BackendError:
    error.__cause__ = cause
    return error


def _as_error(where: str, code: str, error: str) -> BackendError:
    if code in _NOT_NOW:
        return BackendUnavailableError(f"{where}: {error}")
    if code == "WRONGTYPE" or "user_script" in error:
        return BackendDataError(f"{where}: a key of ours holds something else: {error}")
    if code in ("MOVED", "ASK"):
        return BackendError(f"{where}: {error}; this server is one of a cluster: use redis+cluster://")
    if code == "NOPERM":
        otherwise = ", or connect with pushes=False" if "subscribe" in error or "channel" in error else ""
        return BackendError(f"{where}: {error}; grant what the ACL line in the docs lists{otherwise}")
    return BackendError(f"{where}: {error}")
