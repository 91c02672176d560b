"""The session: what the server ends when it does not hear of us, kept over any number of connections.

Everything of ours on the server is ephemeral and goes with it. Until when it surely lasts is told by what the leader
answers, see `proof`: a follower that is cut off from the leader goes on answering pings and reads while the leader has
long ended the session.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from aiozk import protocol

from aiodlock.backends.zookeeper.address import Address
from aiodlock.backends.zookeeper.proof import Proof
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
_EARLY = 0.001  # seconds; a timer may be, by less
_OF_LEADER = frozenset(
    {protocol.Create2Response, protocol.SetDataResponse, protocol.SyncResponse, protocol.TransactionResponse}
)


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
        self._proof = Proof(tick)
        self._asking: asyncio.Future[None] | None = None
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
        """Until when the session surely lasts."""
        return self._proof.valid_until

    async def open(self) -> None:
        """Connect once, or raise; from then on connect again whenever the connection is lost."""
        try:
            link = await self._dial_any(self._first_limit)
        except BackendUnavailableError:  # on a busy machine a greeting takes its time
            link = await self._dial_any(self._longer(self._first_limit))
        self._link = link
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
        if self._asking is not None:
            await asyncio.wait((self._asking,))

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
        return link.send(request, decode)

    def together(self) -> AbstractContextManager[None]:
        """Send in one go what is sent inside the block."""
        return self._link.together() if self._link is not None else nullcontext()

    async def prove(self, *, within: float) -> None:
        """Know that the session is there: from something the leader answered, sent not longer ago than *within*."""
        if self._link is None or self.now() - self._proof.asked_at > within:
            await self._ask()

    async def be_sure(self) -> None:
        """Know that the session lasts a while yet, until more can be known of it; after a silence that takes a tick."""
        for _ in range(2):
            now = self.now()
            pause = max(0.0, self._proof.more_at(now) - now)
            if self.valid_until - now >= pause + self.seconds / 12:
                return
            if pause:
                await self._rest(pause + _EARLY)
            await self._ask()

    async def _rest(self, seconds: float) -> None:
        """Sleep, but not longer than the session is kept."""
        if self._keeper is not None:
            await asyncio.wait((self._keeper,), timeout=seconds)

    def freshen(self) -> None:
        """Find out that the session lasts, without waiting for it, unless that is known well enough."""
        if self.now() - self._proof.asked_at > self.seconds / 9:
            self._begin_to_ask()

    async def _ask(self) -> None:
        asking = self._begin_to_ask()
        await asyncio.wait((asking,))
        asking.result()

    def _begin_to_ask(self) -> asyncio.Future[None]:
        if self._asking is None or self._asking.done():
            self._asking = self.sync()
            self._asking.add_done_callback(heard)
        return self._asking

    def sync(self) -> asyncio.Future[None]:
        """Let our server catch up with the leader: what is read after this is not older than the call."""
        return self.send(protocol.SyncRequest(path=self.address.root), no_result)

    def _answered(self, kind: Any, sent_at: float, now: float) -> None:
        self._proof.hear(sent_at, now, of_leader=kind in _OF_LEADER)

    # --- connecting --------------------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        return min(self.seconds / 3, _LONGEST_PATIENCE)

    @property
    def _first_limit(self) -> float:
        return max(_SHORTEST_DIAL, self._patience / len(self.address.hosts))

    def _longer(self, limit: float) -> float:
        return max(limit, min(2 * limit, self._patience))

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
        delay, limit = _FIRST_DELAY, self._first_limit
        while True:
            try:
                return await self._dial_any(limit)
            except BackendError as error:
                self._down = str(error)
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))
            delay = min(2 * delay, _LONGEST_DELAY, self.seconds / 10)
            limit = self._longer(limit)

    async def _dial_any(self, limit: float) -> Link:
        """Try every server once, each for *limit* seconds, the last one at the end: it has just gone away."""
        hosts = random.sample(self.address.hosts, len(self.address.hosts))
        hosts.sort(key=lambda host: host == self._lost_host)
        error: BackendError = BackendUnavailableError(f"{self.address}: no answer in time")
        for host in hosts:
            self.host = host
            try:
                return await self._dial(host, limit)
            except BackendError as failed:
                error = failed
        raise error

    async def _dial(self, host: tuple[str, int], limit: float) -> Link:
        where, link = f"zk://{host[0]}:{host[1]}", None
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

        def made() -> Link:
            return Link(
                where,
                via=via,
                now=self.now,
                patience=self._patience,
                on_watch=self._on_watch,
                on_answer=self._answered,
            )

        return (await loop.create_connection(made, *host))[1]

    async def _greet(self, link: Link) -> None:
        sent_at = self.now()
        answer = await link.greet(
            session=self.id, password=self._password, session_time=self.asked_for, last_zxid=self._zxid
        )
        if answer.timeout > 0:
            self.id, self._password, self.seconds = answer.session_id, answer.password, answer.timeout / 1000
            self._proof.begin(sent_at, self.seconds)
            return
        self.id, self._password = 0, _NO_PASSWORD
        self._proof.end()
        self._move(SessionState.LOST)
        raise BackendUnavailableError(f"{link.where}: the session has expired")

    async def _prepare(self, link: Link) -> None:
        """Log in, and let the server catch up: it may be behind the one that we were connected to."""
        if self.address.credentials:
            auth = self.address.credentials.encode()
            await link.send(protocol.AuthRequest(type=0, scheme="digest", auth=auth), no_result)
        await link.send(protocol.SyncRequest(path=self.address.root), no_result)
