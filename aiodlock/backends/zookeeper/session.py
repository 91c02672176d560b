"""The session: what the server ends when it does not hear of us, kept over any number of connections.

Everything of ours on the server is ephemeral and goes with it. Until when it surely lasts is told by the last change or
``sync`` that the leader answered, counted from before it was sent: a follower that is cut off from the leader goes on
answering pings and reads while the leader has long ended the session.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from aiozk import protocol

from aiodlock.backends.zookeeper.address import Address
from aiodlock.backends.zookeeper.wire import Decode, Link, OnWatch, heard, no_result
from aiodlock.clock import SystemClock
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["Session", "SessionState"]

_T = TypeVar("_T")

_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0
_SHORTEST_DIAL = 0.25
_LONGEST_PATIENCE = 3.0
_CLOSING = 0.4
_NO_PASSWORD = bytes(16)
_PROOFS = (protocol.Create2Request, protocol.SetDataRequest, protocol.TransactionRequest, protocol.SyncRequest)


class SessionState(enum.Enum):
    """What a client knows of its session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # no connection: the server may or may not have ended it
    LOST = "lost"  # the server has ended it, or it never began


class Session:
    """Keeps one session with an ensemble, and a `Link` to one of its servers.

    While there is no link every request fails at once: nothing is kept and sent later. A session is replaced only when
    the server says that it has ended. *on_change* is told every state, with the number of the connection.
    """

    def __init__(
        self,
        address: Address,
        *,
        seconds: float,
        tick: float,
        on_watch: OnWatch,
        on_change: Callable[[SessionState, int], None],
    ) -> None:
        self.address = address
        self.id = 0
        self.seconds = seconds  # what the server agreed to, once connected
        self.state = SessionState.LOST
        self.now = SystemClock().now
        self.asked_for = seconds
        self.tick = tick
        self._on_watch = on_watch
        self._on_change = on_change
        self._password = _NO_PASSWORD
        self._zxid = 0
        self._proven_at = float("-inf")
        self._proving: asyncio.Future[None] | None = None
        self._via = 0
        self._link: Link | None = None
        self._up = asyncio.Event()
        self._down = "not connected"
        self.host = address.hosts[0]  # the server of the present or last connection
        self._lost_host: tuple[str, int] | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def via(self) -> int:
        """The number of the connection; it grows with every reconnect."""
        return self._via

    @property
    def valid_until(self) -> float:
        """Until when the session surely lasts: a third of it is kept as a margin, at least one tick of the server."""
        margin = min(max(self.seconds / 3, self.tick), self.seconds / 2)
        return self._proven_at + self.seconds - margin

    async def open(self) -> None:
        """Connect once, or raise; from then on connect again whenever the connection is lost."""
        link = self._link = await self._dial_any()
        self.state = SessionState.CONNECTED
        self._up.set()
        self._keeper = asyncio.create_task(self._keep(link), name=f"aiodlock: {self.address}")

    async def aclose(self, *, insist: bool) -> None:
        """End the session where the server can be told, so that everything of ours goes at once.

        With *insist* a server is waited for a moment: something of ours is there.
        """
        if self._keeper is not None:
            if insist:
                await self._wait_for_link()
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        link, self._link, self._down = self._link, None, "closed"
        self.state = SessionState.LOST
        if link is not None:
            try:
                async with asyncio.timeout(_CLOSING):
                    await link.send(protocol.CloseRequest(), no_result)
            except (BackendError, TimeoutError):
                pass  # it ends by itself
            await link.aclose()
        if self._proving is not None:
            await asyncio.wait((self._proving,))

    async def _wait_for_link(self) -> None:
        try:
            async with asyncio.timeout(_CLOSING):
                await self._up.wait()
        except TimeoutError:
            pass

    def send(self, request: Any, decode: Decode[_T]) -> asyncio.Future[_T]:
        """Send over the link of this moment, at once, see `Link.send`."""
        link = self._link
        if link is None:
            reply: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
            reply.set_exception(BackendUnavailableError(f"{self.address}: {self._down}"))
            return reply
        sent_at = self.now()
        reply = link.send(request, decode)
        if isinstance(request, _PROOFS):
            reply.add_done_callback(partial(self._answered, link, sent_at))
        return reply

    def together(self) -> AbstractContextManager[None]:
        """Send in one go what is sent inside the block."""
        return self._link.together() if self._link is not None else nullcontext()

    async def prove(self, *, within: float) -> None:
        """Know that the session lasts: from something the leader answered, sent not longer ago than *within*."""
        if self.now() - self._proven_at <= within and self._link is not None:
            return
        if self._proving is None or self._proving.done():
            self._proving = self.sync()
            self._proving.add_done_callback(heard)
        await asyncio.wait((self._proving,))
        self._proving.result()

    def freshen(self) -> None:
        """Find out that the session lasts, without waiting for it, unless that is known well enough."""
        if self.now() - self._proven_at > self.seconds / 9:
            self.sync().add_done_callback(heard)

    def sync(self) -> asyncio.Future[None]:
        """Let our server catch up with the leader: what is read after this is not older than the call."""
        return self.send(protocol.SyncRequest(path=self.address.root), no_result)

    def _answered(self, link: Link, sent_at: float, reply: asyncio.Future[Any]) -> None:
        if link is self._link and not reply.cancelled() and not reply.exception():
            self._proven_at = max(self._proven_at, sent_at)

    # --- connecting --------------------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        return min(self.seconds / 3, _LONGEST_PATIENCE)

    async def _keep(self, link: Link) -> None:
        while True:
            self._down = await link.lost()
            self._zxid, self._lost_host = max(self._zxid, link.last_zxid), self.host
            self._link = None
            self._up.clear()
            self._move(SessionState.SUSPENDED)
            link = self._link = await self._redial()
            self._up.set()
            self._move(SessionState.CONNECTED)

    def _move(self, state: SessionState) -> None:
        self.state = state
        # Later: what it raises must not end the keeper.
        asyncio.get_running_loop().call_soon(self._on_change, state, self._via)

    async def _redial(self) -> Link:
        delay = _FIRST_DELAY
        while True:
            try:
                return await self._dial_any()
            except BackendError as error:
                self._down = str(error)
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))
            delay = min(2 * delay, _LONGEST_DELAY, self.seconds / 10)

    async def _dial_any(self) -> Link:
        """Try every server once, the last one at the end: it has just gone away."""
        hosts = random.sample(self.address.hosts, len(self.address.hosts))
        hosts.sort(key=lambda host: host == self._lost_host)
        error: BackendError = BackendUnavailableError(f"{self.address}: no answer in time")
        for host in hosts:
            self.host = host
            try:
                return await self._dial(host)
            except BackendError as failed:
                error = failed
        raise error

    async def _dial(self, host: tuple[str, int]) -> Link:
        where, link = f"zk://{host[0]}:{host[1]}", None
        limit = max(_SHORTEST_DIAL, self._patience / len(self.address.hosts))
        try:
            async with asyncio.timeout(limit):
                link = await self._connect(host, where)
                await self._greet(link)
                await self._prepare(link)
        except BaseException as error:
            if link is not None:
                link.abort("not greeted")
            if isinstance(error, BackendError) or not isinstance(error, Exception):
                raise
            raise BackendUnavailableError(f"{where}: {str(error) or 'no answer in time'}") from error
        return link

    async def _connect(self, host: tuple[str, int], where: str) -> Link:
        self._via += 1
        via, loop = self._via, asyncio.get_running_loop()
        made = lambda: Link(where, via=via, on_watch=self._on_watch, patience=self._patience)  # noqa: E731
        return (await loop.create_connection(made, *host))[1]

    async def _greet(self, link: Link) -> None:
        answer = await link.greet(
            session=self.id, password=self._password, session_time=self.asked_for, last_zxid=self._zxid
        )
        if answer.timeout > 0:
            self.id, self._password, self.seconds = answer.session_id, answer.password, answer.timeout / 1000
            return
        self.id, self._password, self._proven_at = 0, _NO_PASSWORD, float("-inf")
        self._move(SessionState.LOST)
        raise BackendUnavailableError(f"{link.where}: the session has expired")

    async def _prepare(self, link: Link) -> None:
        """Log in, and let the server catch up: it may be behind the one that we were connected to."""
        if self.address.credentials:
            auth = self.address.credentials.encode()
            await link.send(protocol.AuthRequest(type=0, scheme="digest", auth=auth), no_result)
        sent_at = self.now()
        await link.send(protocol.SyncRequest(path=self.address.root), no_result)
        self._proven_at = max(self._proven_at, sent_at)
