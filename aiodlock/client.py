"""connect() and the client: opens a backend, owns the background work, makes locks."""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import AsyncIterator
from functools import lru_cache
from types import TracebackType
from typing import Any, Self, Unpack

from aiodlock._core.cancel import finish, insist
from aiodlock._core.engine import Engine
from aiodlock._core.fallback import common
from aiodlock._core.line import Row
from aiodlock.backends.base import Backend, Capabilities
from aiodlock.backends.registry import backend_of
from aiodlock.clock import Clock, SystemClock
from aiodlock.errors import ClientClosedError, ConfigurationError, UnsupportedError
from aiodlock.events import EventQueue, EventSink
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.locks.base import Synchronizer
from aiodlock.locks.election import Election
from aiodlock.locks.latch import Latch
from aiodlock.locks.lock import Lock
from aiodlock.locks.multi import MultiLock
from aiodlock.locks.rwlock import ReadWriteLock
from aiodlock.locks.segmented import SegmentedLock
from aiodlock.locks.semaphore import Semaphore
from aiodlock.policy import Policy, Poll, Push, Retry, Settings, check_count, check_key

__all__ = ["LockClient", "connect"]

_MOST_WAITERS = 100_000
_POLICIES = 128  # that are kept, of all settings asked for
_CLOSED_WITHIN = 10.0


def connect(
    url: str,
    *,
    name: str | None = None,
    clock: Clock | None = None,
    on_event: EventSink | None = None,
    waiting: Push | Poll | Retry | None = None,
    max_waiters: int = _MOST_WAITERS,
    fallback: str | None = None,
    **settings: Any,
) -> LockClient:
    """Return a client of the server that *url* names.

    ``memory://`` is private to the client, ``memory://name`` shared in this process; ``redis://``, ``rediss://`` and
    ``unix://`` name a Redis server, ``redis+sentinel://h1,h2,h3/service/db`` the master of a service,
    ``redis+cluster://h1,h2`` a cluster, ``redlock://h1,h2,h3`` independent servers of which a majority decides (with
    TLS ``rediss+sentinel://``, ``rediss+cluster://``, ``redlocks://``), ``zk://h1,h2,h3/root`` a ZooKeeper ensemble,
    ``mysql://user:pw@host/db`` a database. Needs no loop and does no I/O: ``async with`` or ``await start()`` opens it,
    so that it can stand at module level.

    *name* is what others see as owner, host and process id if left out. *on_event* is called with every event,
    *waiting* is how its locks wait unless they say otherwise, *max_waiters* how many tasks may wait at once. *clock* is
    for tests. *fallback* is the URL of another server, whose locks are taken while the own one is unreachable: they
    exclude only clients that do the same. *settings* are the backend's own.
    """
    timed = {} if clock is None else {"clock": clock}
    return LockClient(
        backend_of(url, **timed, **settings),
        name=name,
        clock=clock,
        on_event=on_event,
        waiting=waiting,
        max_waiters=max_waiters,
        fallback=None if fallback is None else backend_of(fallback, **timed),
    )


class LockClient:
    """One process's connection to the server of its locks, and what makes locks. Made by `connect`.

    For one event loop, from ``async with`` or `start` to `aclose`. Give a *backend* made by hand where a URL cannot say
    enough. The keyword arguments of `lock` and its like are the settings of `Policy`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        on_event: EventSink | None = None,
        waiting: Push | Poll | Retry | None = None,
        max_waiters: int = _MOST_WAITERS,
        fallback: Backend | None = None,
    ) -> None:
        if fallback is not None and fallback.address == backend.address:
            raise ConfigurationError(f"{backend.address} cannot be its own fallback: name another server")
        self._backend = backend
        self._fallback = fallback
        self._name = name
        self._clock = clock or SystemClock()
        self._waiting = waiting or Push()
        self._default = Policy(waiting=self._waiting)
        self._known_policy = lru_cache(_POLICIES, typed=True)(self._new_policy)  # typed: True is no number of seconds
        self._most_waiters = check_count("max_waiters", max_waiters)
        self._events = EventQueue(on_event) if on_event is not None else None
        self._engine: Engine | None = None
        self._started = False
        self._closed = False
        self._closing: asyncio.Future[None] | None = None
        self._forked = False
        _clients.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._engine else "not started"
        return f"<LockClient {self._backend.address} {state}>"

    @property
    def name(self) -> str:
        """What others see as owner."""
        return self._name or f"{socket.gethostname()}:{os.getpid()}"

    @property
    def backend(self) -> Backend:
        """The server technology behind it."""
        return self._backend

    async def start(self) -> Self:
        """Open the backend. A client is opened once, for one event loop.

        Cancellation: the backend is closed again.
        """
        if self._started or self._closed:
            raise ClientClosedError("this client was started before: make another with connect()")
        self._started = True
        engine = Engine(
            self._backend,
            name=self.name,
            clock=self._clock,
            events=self._events,
            most_waiters=self._most_waiters,
            fallback=self._fallback,
        )
        try:
            await engine.backend.open(engine.on_call)
            if self._closed:
                raise ClientClosedError("this client was closed while it opened: connect() again")
        except BaseException as error:
            self._closed = True
            closing = asyncio.ensure_future(insist(engine.backend.aclose))
            if await finish(closing, within=1.0) and (second := closing.exception()):
                error.add_note(f"closing failed as well: {second!r}")
            raise
        self._engine = engine
        engine.examine()
        return self

    async def aclose(self) -> None:
        """Lose every open hold, wait at most a second for their blocks, leave every line and close the connection.

        Tasks that wait get `ClientClosedError`. Closing twice is allowed: both wait for the end.

        Cancellation: the client is closed all the same, then the cancellation goes on.
        """
        engine = self._engine
        if engine is None or self._forked:
            self._closed = True
            return
        if not self._closed:
            self._at_work()  # in its own loop
        self._closed = True
        is_mine = engine.is_open and (self._closing is None or self._closing.done())  # done: cancelled before it began
        if is_mine:
            self._closing = asyncio.ensure_future(engine.close())
        if self._closing is not None and await finish(self._closing, within=_CLOSED_WITHIN) and is_mine:
            self._closing.result()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def ping(self) -> None:
        """Ask the server for a sign of life; raise `BackendUnavailableError` without one.

        Cancellation: nothing is left behind.
        """
        engine = self._at_work()
        await engine.ask(engine.backend.ping())

    async def inspect(self, pattern: str = "*") -> AsyncIterator[Row]:
        """Yield every ticket of every line whose key matches the shell-style *pattern*: who holds, who waits.

        Cancellation: nothing is left behind.
        """
        engine = self._at_work()
        for row in await engine.ask(engine.backend.inspect("*", pattern)):
            yield row

    def lock(self, key: str, **policy: Unpack[Settings]) -> Lock:
        """Return the lock of *key*: one task at a time. No I/O."""
        return Lock(self, check_key(key), self._policy(policy))

    def rwlock(self, key: str, **policy: Unpack[Settings]) -> ReadWriteLock:
        """Return the read-write lock of *key*: many readers or one writer. No I/O."""
        return ReadWriteLock(self, check_key(key), self._policy(policy))

    def semaphore(self, key: str, *, permits: int, **policy: Unpack[Settings]) -> Semaphore:
        """Return the semaphore of *key*: at most *permits* at a time. No I/O."""
        self._require("semaphore", "semaphores")
        return Semaphore(self, check_key(key), self._policy(policy), permits=permits)

    def latch(self, key: str, *, count: int, ttl: float = 30.0, wait: float | None = None) -> Latch:
        """Return the latch of *key*, which opens after *count* steps. No I/O."""
        self._require("latch", "latches")
        return Latch(self, check_key(key), Policy(ttl=ttl, wait=wait), count=count)

    def multi(self, *members: Synchronizer[Any] | MultiLock, wait: float | None = None) -> MultiLock:
        """Return several locks as one, also of other clients and kinds: all or nothing. No I/O."""
        return MultiLock(members, wait=wait)

    def segmented(self, key: str, *, segments: int, **policy: Unpack[Settings]) -> SegmentedLock:
        """Return *key* as *segments* locks with a router in front. No I/O."""
        self._require("semaphore", "segmented locks")
        return SegmentedLock(self, check_key(key), self._policy(policy), segments=segments)

    def election(self, key: str, **policy: Unpack[Settings]) -> Election:
        """Return the election of the role *key*: one process leads at a time. No I/O."""
        return Election(self, check_key(key), self._policy(policy))

    def stock(
        self,
        key: str,
        *,
        segments: int = 1,
        memory: float = 3600.0,
        once_per_buyer: bool = False,
        outbox: bool = False,
        patience: float = 5.0,
    ) -> SegmentedStock:
        """Return the stock of *key*, spread over *segments*. No I/O.

        *memory*: seconds that an order is remembered after it was last changed. *once_per_buyer*: one order each.
        *outbox*: write every movement down for a relay, in the same step. *patience*: seconds without an answer after
        which a call gives up. All but *patience* have to be the same for everybody who uses the key.
        """
        return SegmentedStock(
            self,
            check_key(key),
            segments=segments,
            memory=memory,
            once_per_buyer=once_per_buyer,
            outbox=outbox,
            patience=patience,
        )

    def _policy(self, settings: Settings) -> Policy:
        """Return the policy with these settings: a lock that is made for every request is not checked every time."""
        if not settings:
            return self._default
        try:
            if not callable(settings.get("on_lost")):  # which may refer to anything, and is not to be kept
                return self._known_policy(**settings)
        except TypeError:  # something has no hash, or is no setting at all
            pass
        return self._new_policy(**settings)

    def _new_policy(self, **settings: Unpack[Settings]) -> Policy:
        if not self._capabilities.ordered and (settings.get("fair") or settings.get("linger")):
            raise UnsupportedError(f"{self._servers} does not know who waits: leave fair and linger out")
        if not self._capabilities.pushes and settings.get("linger"):
            raise UnsupportedError(f"{self._servers} does not tell that others come: leave linger out")
        return Policy(**{"waiting": self._waiting, **settings})  # type: ignore[arg-type]

    @property
    def _capabilities(self) -> Capabilities:
        own = self._backend.capabilities
        return own if self._fallback is None else common(own, self._fallback.capabilities)

    @property
    def _servers(self) -> str:
        own = self._backend.address
        return own if self._fallback is None else f"{own} with the fallback {self._fallback.address}"

    def _require(self, kind: str, what: str) -> None:
        if kind not in self._capabilities.kinds:
            raise UnsupportedError(f"{self._servers} has no {what}: use another backend for them")

    def _at_work(self) -> Engine:
        """Return the engine, or say why there is none for this caller."""
        engine = self._engine
        if engine is not None and engine.is_open and engine.loop is asyncio.get_running_loop():
            return engine
        if self._forked:
            raise ClientClosedError("this client belongs to the parent process: connect() again after fork")
        if self._closed:
            raise ClientClosedError("this client is closed: connect() again")
        if engine is None:
            raise ClientClosedError("this client is not started: use 'async with' or 'await locks.start()'")
        raise ClientClosedError("this client belongs to another event loop: connect() again in this one")


_clients: weakref.WeakSet[LockClient] = weakref.WeakSet()


def _mark_forked() -> None:
    for client in _clients:
        if client._engine is not None:
            client._forked = True
            client._engine.stay_behind()


os.register_at_fork(after_in_child=_mark_forked)
