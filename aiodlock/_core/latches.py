"""Who of our tasks waits for which latch: one look for all of them, at every call and now and then without one."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from aiodlock._core.line import LineId
from aiodlock.clock import Timer
from aiodlock.errors import AiodlockError, BackendError

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Latches"]

Watch: TypeAlias = "asyncio.Future[bool]"  # True: open; False: not in time
Look: TypeAlias = Callable[[], Awaitable[bool]]


class _Watched:
    def __init__(self, look: Look, every: float) -> None:
        self.look = look
        self.every = every
        self.watches: dict[Watch, None] = {}
        self.planned: Timer | None = None

    def unplan(self) -> None:
        if self.planned is not None:
            self.planned.cancel()


class Latches:
    """The latches that tasks of one client wait for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watched: dict[LineId, _Watched] = {}

    def watch(self, line: LineId, look: Look, *, every: float) -> Watch:
        """Wait for *line* to open; *look* asks the server, which also keeps the latch alive."""
        engine = self._engine
        if engine.waiting >= engine.most_waiters:
            raise engine.too_many(line)
        engine.waiting += 1
        watch: Watch = engine.loop.create_future()
        watched = self._watched.get(line)
        if watched is None:
            watched = self._watched[line] = _Watched(look, every)
            self.look(line)
        watched.watches[watch] = None
        return watch

    def forget(self, line: LineId, watch: Watch) -> None:
        """Wait no longer."""
        self._engine.waiting -= 1
        if watched := self._watched.get(line):
            watched.watches.pop(watch, None)
            if not watched.watches:
                self._drop(line)

    def look(self, line: LineId) -> None:
        """Ask for one latch, if somebody here waits for it."""
        if watched := self._watched.get(line):
            watched.unplan()
            self._engine.work.own(watched.look(), lambda answer: self._looked(line, watched, answer))

    def look_at_all(self) -> None:
        """Ask for every latch: calls may have been missed."""
        for line in list(self._watched):
            self.look(line)

    def fail(self, error: Callable[[], AiodlockError]) -> None:
        """Give everybody who waits an error of their own."""
        for line in list(self._watched):
            for watch in self._drop(line).watches:
                if not watch.done():
                    watch.set_exception(error())

    def _looked(self, line: LineId, watched: _Watched, answer: bool | BackendError) -> None:
        if self._watched.get(line) is not watched:
            return
        if answer is False:
            self._plan(line, watched)
            return
        self._drop(line)
        for watch in watched.watches:
            if not watch.done():
                watch.set_result(True) if answer is True else watch.set_exception(copy.copy(answer))

    def _plan(self, line: LineId, watched: _Watched) -> None:
        watched.unplan()
        when = self._engine.now() + watched.every
        watched.planned = self._engine.clock.call_at(when, lambda: self.look(line))

    def _drop(self, line: LineId) -> _Watched:
        watched = self._watched.pop(line)
        watched.unplan()
        return watched
