"""Owned background work: everything a client sends runs here, never in a user's task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from aiodlock.backends.base import Reply, as_future
from aiodlock.errors import BackendError, BackendUnavailableError, ClientClosedError

__all__ = ["Supervisor"]

T = TypeVar("T")


class Supervisor:
    """Keeps a reference to all work under way, reports what fails, ends it in order."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._report = report
        self._work: set[asyncio.Future[Any]] = set()
        self._otherwise = self._failed  # looked up here, not for every verb

    def see(self, work: Awaitable[T], done: Callable[[T | BackendError], None]) -> None:
        """See *work* through and give *done* its result, or the error that stands for it: at once from a `Reply`."""
        if isinstance(work, Reply) and work.made is None:
            work.then = done
            work.otherwise = self._otherwise
        else:
            self.own(work, done)

    def own(self, work: Awaitable[T], done: Callable[[T | BackendError], None]) -> asyncio.Future[T]:
        """Do the same, and return it as a future."""
        future = as_future(work)
        self._work.add(future)
        future.add_done_callback(partial(self._ended, done))
        return future

    def result_of(self, work: asyncio.Future[T]) -> T:
        """Return what came of *work*; if it was stopped, that is no cancellation of whoever asks."""
        if work.cancelled():
            raise ClientClosedError("the client was closed before the server answered")
        return work.result()

    async def drain(self, *, within: float) -> None:
        """Wait for what is under way, also for what its ends bring about, at most *within* seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        while self._work and (left := until - loop.time()) > 0:
            await asyncio.wait(self._work, timeout=left)
            await asyncio.sleep(0)  # the callbacks of what just ended run first

    async def stop(self) -> None:
        """Cancel the rest and wait until it is gone."""
        while self._work:
            for future in self._work:
                future.cancel()
            await asyncio.wait(self._work)
            await asyncio.sleep(0)

    def _ended(self, done: Callable[[T | BackendError], None], future: asyncio.Future[T]) -> None:
        self._work.discard(future)
        if future.cancelled():
            done(BackendUnavailableError("the client stopped before the server answered"))
            return
        error = future.exception()
        if error is None:
            done(future.result())
        else:
            self._failed(done, error)

    def _failed(self, done: Callable[[Any], None], error: BaseException) -> None:
        self._report(error)
        done(error if isinstance(error, BackendError) else BackendError(f"{type(error).__name__}: {error}"))
