"""A server as this client sees it: one connection at a time, made anew when it is lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from aiodlock.backends.base import pause_after
from aiodlock.backends.redis.request import Decode, Request
from aiodlock.backends.redis.scripts import Script, to_hello, to_none
from aiodlock.backends.redis.wire import Hear, Link, OnPush, OnRefused
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["Node", "Where", "close_together"]

_T = TypeVar("_T")


class Where(Protocol):
    """Where a server is and how to be let in: an `Address`, or somebody who knows it at this moment."""

    async def connect(self, protocol: Callable[[], Link]) -> Link:
        """Open a connection; nothing is said on it yet."""
        ...

    def greeting(self, name: str) -> tuple[bytes, ...]:
        """Return the packed commands that begin a connection, HELLO first."""
        ...


class Node:
    """Keeps a `Link` to one address. While it is lost every command fails at once: nothing is kept and sent later.

    *greet* prepares a fresh link (subscriptions) before any command goes over it. *on_down* is told when a link is lost
    or none was made, *on_up* when commands may go out again. *vias* numbers the links of nodes that share the numbers.
    *hear*, *merges*: see `Link`.
    """

    def __init__(
        self,
        address: Where,
        *,
        name: str,
        greet: Callable[[Link], Awaitable[None]],
        patience: float,
        on_push: OnPush = lambda push, via: None,
        on_up: Callable[[int], None] = lambda via: None,
        on_down: Callable[[], None] = lambda: None,
        on_refused: OnRefused | None = None,
        hear: Hear = lambda read: read(),
        vias: Iterator[int] | None = None,
        merges: bool = True,
    ) -> None:
        self.address = address
        self._name = name
        self._greet = greet
        self._on_push = on_push
        self._on_up = on_up
        self._on_down = on_down
        self._on_refused = on_refused
        self._hear = hear
        self._patience = patience
        self._merges = merges
        self._vias = vias or itertools.count(1)
        self._early: list[Request[Any]] | None = None  # what was sent before the first connection was made
        self._down = "not connected"
        self._use(None)
        self._keeper: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether a command sent now goes out, now or as soon as the first connection is made."""
        return self._link is not None or self._early is not None

    async def open(self) -> None:
        """Connect once, or raise; from then on connect again whenever the connection is lost."""
        self._use(link := await self._dial())
        self._keeper = asyncio.create_task(self._keep(link), name=f"aiodlock: {self.address}")

    def keep(self) -> None:
        """Connect as soon as that is possible, and again whenever the connection is lost; commands fail until then."""
        self._keeper = asyncio.create_task(self._keep(None), name=f"aiodlock: {self.address}")

    def start(self) -> None:
        """Do the same; what is sent meanwhile goes out when the first attempt has succeeded."""
        self._early = []
        self._keeper = asyncio.create_task(self._begin(), name=f"aiodlock: {self.address}")

    @property
    def peer(self) -> tuple[str, int] | None:
        """Host and port at the other end of the present connection."""
        return self._link.peer if self._link is not None else None

    def reset(self, reason: str) -> None:
        """Give the present connection up, for *reason*, and make another."""
        if self._link is not None:
            self._link.abort(reason)

    async def aclose(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            try:
                await asyncio.wait({self._keeper})
            except asyncio.CancelledError:
                self.reset("closed")  # whoever made it for one question may be cancelled right here
                raise
        self._down = "closed"
        self._fail_early()
        if self._link is not None:
            link = self._link
            self._use(None)
            await link.aclose("closed")

    def send(self, payload: bytes, decode: Decode[_T], script: Script | None = None) -> Request[_T]:
        """Send over the link of this moment, see `Link.send`."""
        request = Request(payload, decode, script)
        self.take(request)
        return request

    def _use(self, link: Link | None) -> None:
        """Send over *link* from now on."""
        self._link = link
        self.take: Callable[[Request[Any]], None] = link.take if link is not None else self._take_early
        """Send a command that somebody waits for already."""

    def _take_early(self, request: Request[Any]) -> None:
        if self._early is not None:
            self._early.append(request)
        else:
            self._fail(request)

    async def _begin(self) -> None:
        link: Link | None = None
        try:
            link = await self._dial()
        except BackendError as error:
            self._down = str(error)
            self._fail_early()
        else:
            early, self._early = self._early, None
            self._use(link)
            for request in early or ():
                link.take(request)
        await self._keep(link)

    async def _keep(self, link: Link | None) -> None:
        while True:
            if link is not None:
                self._down = await link.lost()
            self._use(None)
            self._on_down()
            self._use(link := await self._redial())
            asyncio.get_running_loop().call_soon(self._on_up, link.via)  # what it raises must not end this task

    def _fail_early(self) -> None:
        early, self._early = self._early, None
        for request in early or ():
            self._fail(request)

    def _fail(self, request: Request[Any]) -> None:
        request.fail(BackendUnavailableError(f"{self.address}: {self._down}"))

    async def _redial(self) -> Link:
        tries = 0
        while True:
            await asyncio.sleep(pause_after(tries))
            try:
                return await self._dial()
            except BackendError as error:
                self._down, tries = str(error), tries + 1

    async def _dial(self) -> Link:
        link: Link | None = None
        try:
            async with asyncio.timeout(self._patience):
                link = await self.address.connect(self._new_link)
                hello, *others = self.address.greeting(self._name)
                link.role = await link.send(hello, to_hello)
                for payload in others:
                    await link.send(payload, to_none)
                await self._greet(link)
        except BaseException as error:
            if link is not None:
                link.abort("not greeted")
            if isinstance(error, BackendError) or not isinstance(error, Exception):
                raise
            raise BackendUnavailableError(f"{self.address}: {str(error) or 'no answer in time'}") from error
        return link

    def _new_link(self) -> Link:
        return Link(
            str(self.address),
            via=next(self._vias),
            on_push=self._on_push,
            patience=self._patience,
            on_refused=self._on_refused,
            hear=self._hear,
            merges=self._merges,
        )


async def close_together(nodes: Iterable[Node]) -> None:
    """Close all of them at once: each may wait a while for its peer, and they must not add up."""
    await asyncio.gather(*(node.aclose() for node in nodes))
