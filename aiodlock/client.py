"""connect() and the client: opens a backend, owns the background work, makes locks."""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from aiodlock._core.cancel import finish
from aiodlock._core.engine import Engine
from aiodlock._core.line import LineId, Row
from aiodlock.backends.base import Backend
from aiodlock.backends.registry import backend_of
from aiodlock.clock import Clock, SystemClock
from aiodlock.errors import ClientClosedError
from aiodlock.events import EventQueue, EventSink
from aiodlock.locks.lock import Lock
from aiodlock.policy import OnLost, Policy, Poll, Push, Retry, check_count, check_key

__all__ = ["LockClient", "connect"]

MOST_WAITERS = 100_000
CLOSED_WITHIN = 10.0


def connect(
    url: str,
    *,
    name: str | None = None,
    clock: Clock | None = None,
    on_event: EventSink | None = None,
    waiting: Push | Poll | Retry | None = None,
    max_waiters: int = MOST_WAITERS,
    **settings: Any,
) -> LockClient:
    """Return a client of the server that *url* names: ``memory://``, ``memory://name``, and what is installed.

    Needs no loop and does no I/O: ``async with`` or ``await start()`` opens it, so that it can stand at module level.
    *name* is what others see as owner; *settings* are the backend's own.
    """
    if clock is not None:
        settings["clock"] = clock
    backend = backend_of(url, **settings)
    return LockClient(backend, name=name, clock=clock, on_event=on_event, waiting=waiting, max_waiters=max_waiters)


class LockClient:
    """One process's connection to the servers of its locks."""

    def __init__(
        self,
        backend: Backend,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        on_event: EventSink | None = None,
        waiting: Push | Poll | Retry | None = None,
        max_waiters: int = MOST_WAITERS,
    ) -> None:
        self._backend = backend
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._clock = clock or SystemClock()
        self._waiting = waiting or Push()
        self._most_waiters = check_count("max_waiters", max_waiters)
        self._events = EventQueue(on_event) if on_event is not None else None
        self._engine: Engine | None = None
        self._closed = False
        self._forked = False
        _clients.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._engine else "not started"
        return f"<LockClient {self._backend.address} {state}>"

    @property
    def name(self) -> str:
        """What others see as owner."""
        return self._name

    @property
    def backend(self) -> Backend:
        return self._backend

    async def start(self) -> Self:
        """Open the backend. A client is opened once, for one event loop.

        Cancellation: the backend is closed again.
        """
        if self._engine is not None or self._closed:
            raise ClientClosedError("this client was started before: make another with connect()")
        engine = Engine(
            self._backend,
            name=self._name,
            clock=self._clock,
            events=self._events,
            most_waiters=self._most_waiters,
        )
        try:
            await self._backend.open(engine.on_call)
        except BaseException:
            self._closed = True
            await finish(asyncio.ensure_future(self._backend.aclose()), within=1.0)
            raise
        self._engine = engine
        return self

    async def aclose(self) -> None:
        """Lose every open hold, wait at most a second for their blocks, leave every line and close the connection.

        Tasks that wait get `ClientClosedError`. Closing twice is allowed.

        Cancellation: the client is closed all the same, then the cancellation goes on.
        """
        engine, self._closed = self._engine, True
        if engine is not None and engine.is_open and not self._forked:
            await finish(asyncio.ensure_future(engine.close()), within=CLOSED_WITHIN)

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
        """Yield every ticket in every line whose key matches the shell-style *pattern*: who holds, who waits, since when.

        Cancellation: nothing is left behind.
        """
        engine = self._at_work()
        for row in await engine.ask(engine.backend.inspect("*", pattern)):
            yield row

    def lock(
        self,
        key: str,
        *,
        ttl: float = 30.0,
        wait: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        fair: bool = False,
        reentrant: bool = True,
        on_lost: OnLost = "cancel",
        linger: float = 0.0,
        waiting: Push | Poll | Retry | None = None,
    ) -> Lock:
        """Return the lock of *key*. No I/O.

        *ttl*: the lease, renewed at a third of it unless *renew* is false. *wait*: how long acquiring may take, None for ever.
        *max_hold*: the longest hold in all. *fair*: strict order across processes, at a round trip per hold. *on_lost*: ``"cancel"`` the block, ``"flag"``
        only, or a function of the hold. *linger*: keep an unwanted ticket so long for the next local task.
        """
        line = LineId("lock", check_key(key))
        policy = Policy(ttl, renew, max_hold, wait, fair, reentrant, on_lost, linger, waiting or self._waiting)
        return Lock(self, line, policy)

    def _at_work(self) -> Engine:
        """Return the engine, or say why there is none for this caller."""
        engine = self._engine
        if self._forked:
            raise ClientClosedError("this client belongs to the parent process: connect() again after fork")
        if engine is None:
            raise ClientClosedError("this client is not started: use 'async with' or 'await locks.start()'")
        if not engine.is_open:
            raise ClientClosedError("this client is closed: connect() again")
        if engine.loop is not asyncio.get_running_loop():
            raise ClientClosedError("this client belongs to another event loop: connect() again in this one")
        return engine


_clients: weakref.WeakSet[LockClient] = weakref.WeakSet()


def _mark_forked() -> None:
    for client in _clients:
        client._forked = True


os.register_at_fork(after_in_child=_mark_forked)
