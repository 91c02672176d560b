"""The wire: all commands of a client on one RESP3 connection, pushes on the same socket.

Commands of one loop tick go out in one write, the first of them earlier where the server has nothing to do, so that
server and client work at the same time; the verbs of many tickets among them as one call. Replies come in order. A
caller may cancel its future: the reply is then read and dropped, and the stream goes on.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias, TypeVar, cast

import hiredis

from aiodlock.backends.redis.request import Decode, Request, merged, packed
from aiodlock.backends.redis.scripts import Script, command, to_none
from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError

__all__ = ["MOST", "Hear", "Link", "OnPush", "OnRefused"]

_T = TypeVar("_T")
OnPush: TypeAlias = Callable[[list[Any], int], None]
Hear: TypeAlias = Callable[[Callable[[], None]], None]
OnRefused: TypeAlias = Callable[[Request[Any], str], bool]

_CHUNK, _FEW, MOST = 24, 16, 64  # commands in a write, and verbs in a call: see `_half`
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


def _ignore(*_: object) -> None: ...


# Redis writes last to whom it had something to write first. So who has company sends this ahead of a lone command:
# whoever the command calls is woken before we are, and need not wait until we have used the processor.
_AHEAD = Request(_PING, to_none)
_AHEAD.then, _AHEAD.otherwise = _ignore, _ignore


class Link(asyncio.Protocol):
    """One connection, from connected to lost; `via` numbers it.

    It is lost when the peer says so, and aborted when a reply is overdue by *patience* seconds; after a silence a PING
    asks. Then every command without a reply fails: it may or may not have happened.

    *on_refused* sees every error reply first; what it takes care of (a command that belongs elsewhere) does not fail.
    *hear* is given the reading of what arrived together, and calls it.
    *merges*: whether verbs may go out as one call; not where lines are on several servers.
    """

    def __init__(
        self,
        where: str,
        *,
        via: int,
        on_push: OnPush,
        patience: float,
        on_refused: OnRefused | None = None,
        hear: Hear = lambda read: read(),
        merges: bool = True,
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
        self._hear = hear
        self._merges = merges
        self._transport: asyncio.Transport
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._pending: deque[list[Request[Any]]] = deque()  # calls without a reply
        self._backlog: deque[Request[Any]] = deque()
        self._loading: set[Script] = set()
        self._unloadable: set[Script | None] = set()
        self._out: list[Request[Any]] = []
        self._is_paused = False  # by the transport
        self._is_held_up = False  # whatever comes now goes to the backlog
        self._is_planned = False  # a write at the end of this tick
        self._is_pushed = False  # something was, since the last write
        self._in_tick = 0
        self._last_tick = 1
        self._chunk = _CHUNK
        self._quiet = 0  # checks since anything was heard
        self._overdue = 0  # checks that found the same command unanswered
        self._oldest: object = None
        self._interval = patience / 3
        self._timer: asyncio.TimerHandle

    def send(self, payload: bytes, decode: Decode[_T], script: Script | None = None) -> Request[_T]:
        """Send a packed command; the future gets its decoded reply.

        A reply ``NOSCRIPT`` means that nothing was done: it is cured by sending *script*, and the command again.
        """
        request = Request(payload, decode, script)
        self.take(request)
        return request

    def take(self, request: Request[Any]) -> None:
        """Send a command that somebody waits for already."""
        if self._is_held_up:
            self._put_off(request)
            return
        out = self._out
        out.append(request)
        if self._is_planned:
            if len(out) >= (MOST if self._pending else self._chunk):  # a server at work need not be given more early
                self._flush()
        elif self._pending or self._last_tick > 1:
            # The first of many would travel alone, and the others wait for its reply.
            self._is_planned = True
            self.loop.call_soon(self._tick)
        else:
            self._flush()  # alone on the wire

    async def aclose(self, reason: str) -> None:
        """Close politely if nothing is in doubt; in any case soon."""
        if self._pending or self._out:
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
        self._is_paused = self._is_held_up = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._advance()

    def data_received(self, data: bytes) -> None:
        self._quiet = 0
        self._reader.feed(data)
        self._hear(self._take_in)

    # --- out -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._flush()
        self._is_planned = False
        self._last_tick, self._in_tick = self._in_tick, 0
        self._chunk = _half(self._last_tick)

    def _flush(self) -> None:
        if not self._out or self.reason:
            return
        out, self._out = self._out, []
        if self._is_planned:
            self._in_tick += len(out)
        if len(out) == 1:
            calls = [[_AHEAD], out] if self._is_pushed else [out]
        else:
            calls = merged(out) if self._merges else [[request] for request in out]
        self._is_pushed = False
        self._pending.extend(calls)
        self._transport.write(b"".join(map(packed, calls)))
        if self._is_full:
            self._is_held_up = True

    @property
    def _is_full(self) -> bool:
        """Whether one more write could bring too many commands on their way."""
        return len(self._pending) > _MOST_IN_FLIGHT - MOST

    def _put_off(self, request: Request[Any]) -> None:
        if not self.reason and len(self._backlog) < _MOST_WAITING:
            self._backlog.append(request)
        else:
            reason = self.reason or f"{_MOST_WAITING} commands wait already"
            request.fail(BackendUnavailableError(f"{self.where}: {reason}"))

    def _advance(self) -> None:
        """Send what was held up, as far as there is room."""
        if self.reason or self._is_paused or self._is_full:
            return
        self._is_held_up = False
        while self._backlog and not self._is_held_up:
            request = self._backlog.popleft()
            if not request.done():
                self.take(request)

    # --- in --------------------------------------------------------------------------------------------------

    def _take_in(self) -> None:
        try:
            self._read()
        except hiredis.ProtocolError as error:
            self.abort(f"unexpected reply: {error!r}")
        if self._is_held_up:
            self._advance()

    def _read(self) -> None:
        gets, pending, via = self._reader.gets, self._pending, self.via
        while not self.reason and (reply := gets()) is not _MORE:
            if type(reply) is _PUSH and reply[0] not in _CONFIRMS:
                self._is_pushed = True
                try:
                    self._on_push(reply, via)
                except Exception as error:
                    self._report(error)
                continue
            if not pending:
                raise hiredis.ProtocolError("nothing was asked")
            asked = pending.popleft()
            if asked[0].key and type(reply) is list and len(reply) == len(asked):
                self._answer(asked, reply, via)
            else:
                self._answer(asked, [reply] * len(asked), via)

    def _answer(self, requests: Sequence[Request[Any]], replies: Sequence[Any], via: int) -> None:
        for request, reply in zip(requests, replies, strict=True):
            try:
                if type(reply) is _ERROR:
                    self._refused(request, str(reply))
                    continue
                try:
                    decode = request.decode
                    answer = None if decode is to_none else decode(reply, via)  # half of them are leaves
                except Exception as error:
                    request.fail(_chained(BackendDataError(f"{self.where}: unexpected answer {reply!r}"), error))
                    continue
                then = request.then
                if then is not None:  # as arrive() does: nearly all come here
                    then(answer)
                else:
                    request.arrive(answer)
            except Exception as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        """Tell of an error of whoever heard a reply: it is not ours, and the stream goes on."""
        self.loop.call_exception_handler({"message": "hearing a reply failed", "exception": error})

    def _refused(self, request: Request[Any], error: str) -> None:
        if request.done():
            return
        code, script = error.partition(" ")[0], request.script
        if code == "NOSCRIPT" and script is not None and script not in self._unloadable:
            self._load(script)
            self.take(request)
            return
        self._unloadable.discard(script)
        if self._on_refused is not None and self._on_refused(request, error):
            return
        request.fail(_as_error(self.where, code, error))
        if code == "READONLY":  # demoted: another server has the lines now, and a new connection may reach it
            self.abort(error)

    def _load(self, script: Script) -> None:
        """Send a script, once for all commands that met its absence."""
        if script not in self._loading:
            self._loading.add(script)
            self.send(script.load, to_none).future.add_done_callback(lambda done: self._loaded(script, done))

    def _loaded(self, script: Script, done: asyncio.Future[None]) -> None:
        self._loading.discard(script)
        if done.exception():
            self._unloadable.add(script)

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
            self.send(_PING, to_none).future.add_done_callback(lambda done: done.exception())

    def _end(self, reason: str) -> None:
        if self.reason:
            return
        self.reason, self._is_held_up = reason, True
        self._lost.set()
        self._timer.cancel()
        unanswered = [*chain.from_iterable(self._pending), *self._out, *self._backlog]
        self._pending.clear()
        self._out.clear()
        self._backlog.clear()
        for request in unanswered:
            request.fail(BackendUnavailableError(f"{self.where}: {reason}, before the reply"))


def _half(last_tick: int) -> int:
    """Return how many to write at a time: half of what the last tick brought, so that the server works on one half
    while the other is made; where it brought few, there may be nothing to halve."""
    return min(last_tick // 2, MOST) if last_tick >= _FEW else _CHUNK


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
