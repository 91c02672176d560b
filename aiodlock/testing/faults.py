"""Faults between a client and its memory server, on demand: what a network does on a bad day.

::

    faults = Faults(locks)                 # a client of memory://
    faults.drop_reply("join")              # the next join is done, its answer is lost
    late = faults.hold_back("join")        # the next join is on its way ...
    late.deliver()                         # ... and arrives now, perhaps after its leave
    faults.lose(hold)                      # the server ends this hold
    faults.calls = "drop"                  # or "double", or "deliver" again
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from aiodlock._core.line import Ticket
from aiodlock.backends.memory import MemoryBackend, Network
from aiodlock.errors import BackendUnavailableError, ConfigurationError

if TYPE_CHECKING:
    from aiodlock._core.hold import Hold
    from aiodlock.client import LockClient

__all__ = ["Faults", "HeldBack", "Verb"]

_T = TypeVar("_T")
Verb = Literal[
    "join", "leave", "renew", "inspect", "change", "revoke", "latch", "ping",
    "take", "confirm", "put_back", "restock", "audit", "outbox",
]  # fmt: skip


class HeldBack:
    """A request that has been sent and has not arrived."""

    def __init__(self) -> None:
        self._act: Callable[[], object] | None = None

    @property
    def is_caught(self) -> bool:
        """Whether a request is held back here."""
        return self._act is not None

    def deliver(self) -> None:
        """Let it arrive; nobody hears its answer any more."""
        act, self._act = self._act, None
        if act is None:
            raise ConfigurationError("no request is held back here: send one first")
        act()


class Faults(Network):
    """The network of one memory client, under the test's control."""

    def __init__(self, client: LockClient) -> None:
        if not isinstance(client.backend, MemoryBackend):
            raise ConfigurationError(
                f"{client!r} has a real network: use aiodlock.testing.proxy.FaultProxy in front of it"
            )
        self.calls: Literal["deliver", "drop", "double", "hold"] = "deliver"
        self.sent: list[str] = []  # every verb that was sent
        self._backend = client.backend
        self._backend.network = self
        self._dropped_requests: dict[str, int] = {}
        self._dropped_replies: dict[str, int] = {}
        self._held_back: dict[str, list[HeldBack]] = {}
        self._held_calls: list[Callable[[], None]] = []
        self._is_down = False
        self._is_silent = False
        self._swallowed: list[asyncio.Future[Any]] = []

    def drop_reply(self, verb: Verb, times: int = 1) -> None:
        """Do the next *times* of *verb*, and lose the answer with the connection."""
        self._dropped_replies[verb] = times

    def drop_request(self, verb: Verb, times: int = 1) -> None:
        """Lose the next *times* of *verb* with the connection before they arrive."""
        self._dropped_requests[verb] = times

    def hold_back(self, verb: Verb) -> HeldBack:
        """Cut the connection while the next *verb* is on its way; it arrives when `deliver` is called."""
        held = HeldBack()
        self._held_back.setdefault(verb, []).append(held)
        return held

    def go_down(self) -> None:
        """Refuse every request until `come_back`."""
        self._is_down = True

    def fall_silent(self) -> None:
        """Answer nothing until `come_back`, and refuse nothing either: a half-open connection."""
        self._is_silent = True

    def come_back(self) -> None:
        """Be well again, on a new connection."""
        self._is_down = self._is_silent = False
        swallowed, self._swallowed = self._swallowed, []
        for answer in swallowed:
            if not answer.done():
                answer.set_exception(BackendUnavailableError("no answer: the connection was lost"))
        self._backend.reconnect()

    def lose(self, hold: Hold) -> None:
        """End *hold* on the server, as an administrator would; its client is told."""
        self._backend.server.leave(Ticket.of(hold._cohort.line, hold._place.ticket.id), None, bury=False)

    def release_calls(self) -> None:
        """Deliver the calls held while `calls` was ``"hold"``."""
        held, self._held_calls = self._held_calls, []
        for deliver in held:
            super().push(deliver)

    def carry(self, verb: str, act: Callable[[], _T]) -> Awaitable[_T]:
        self.sent.append(verb)
        if self._is_silent:
            answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
            self._swallowed.append(answer)
            return answer
        if self._is_down or self._use_up(self._dropped_requests, verb):
            return self._fail(verb)
        if waiting := self._held_back.get(verb):
            waiting.pop(0)._act = act
            return self._fail(verb)
        if self._use_up(self._dropped_replies, verb):
            act()
            return self._fail(verb)
        return super().carry(verb, act)

    def push(self, deliver: Callable[[], None]) -> None:
        if self.calls == "hold":
            self._held_calls.append(deliver)
        for _ in range({"deliver": 1, "double": 2}.get(self.calls, 0)):
            super().push(deliver)

    def _fail(self, verb: str) -> asyncio.Future[_T]:
        failed: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        failed.set_exception(BackendUnavailableError(f"no answer to {verb}: the connection was lost"))
        if not self._is_down:
            self._backend.reconnect()
        return failed

    @staticmethod
    def _use_up(times: dict[str, int], verb: str) -> bool:
        left = times.get(verb, 0)
        times[verb] = max(0, left - 1)
        return left > 0
