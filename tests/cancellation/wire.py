"""A memory network that takes its time, so that a cancel can come while something is on its way.

The one in `aiodlock.backends.memory` answers at once: there is no moment between a request and its answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from aiodlock.backends.base import OnCall
from aiodlock.backends.memory import MemoryBackend, Network
from aiodlock.errors import BackendUnavailableError

__all__ = ["TRIP", "Fault", "Later", "SlowBackend", "TaskBackend", "Wire", "after_a_trip", "after_some_steps"]

_T = TypeVar("_T")
Fault = Literal["drop reply", "drop request", "late"]
Later: TypeAlias = "Callable[[Callable[[], None]], object]"

TRIP = 0.001  # seconds from one end to the other


def after_a_trip(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(TRIP, callback)


def after_some_steps(callback: Callable[[], None], steps: int = 3) -> None:
    """Go three times around the loop: a trip that takes no time, for loops whose time is real."""
    again = partial(after_some_steps, callback, steps - 1) if steps else callback
    asyncio.get_running_loop().call_soon(again)


class Wire(Network):
    """Both ways take a trip and keep their order. What was sent arrives, also when its sender is gone.

    `faults` says what happens to the next request of a verb when it arrives; each of them costs the connection.
    """

    def __init__(self, later: Later = after_a_trip) -> None:
        self.backend: MemoryBackend | None = None
        self.faults: dict[str, Fault] = {}
        self.is_closed = False
        self.is_down = False
        self.is_silent = False
        self.calls_overtake = False
        self._later = later
        self._requests: deque[tuple[str, Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._news: deque[Callable[[], None]] = deque()  # answers and calls on their way to the client
        self._asked: dict[asyncio.Future[Any], str] = {}
        self._late: list[Callable[[], object]] = []

    @property
    def on_its_way(self) -> int:
        """How many requests, answers and calls are between the two ends."""
        return len(self._requests) + len(self._news)

    def carry(self, verb: str, act: Callable[[], _T]) -> Awaitable[_T]:
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        if self.is_down or self.is_closed:
            answer.set_exception(_lost(verb))
            return answer
        self._asked[answer] = verb
        self._requests.append((verb, act, answer))
        self._later(self._arrive)
        return answer

    def push(self, deliver: Callable[[], None]) -> None:
        if self.calls_overtake:
            asyncio.get_running_loop().call_soon(deliver)
        elif not self.is_silent:
            self._bring(deliver)

    def cut(self) -> None:
        """Lose the connection: what is on its way is gone, who waits for an answer hears so."""
        self._requests.clear()
        self._news.clear()
        asked, self._asked = self._asked, {}
        for answer, verb in asked.items():
            if not answer.done():
                answer.set_exception(_lost(verb))
        if self.backend is not None and not (self.is_down or self.is_closed):
            self.backend.reconnect()

    def harm(self, verb: str, fault: Fault) -> None:
        """Have something happen to the next request of *verb*."""
        self.faults[verb] = fault

    def fall_silent(self) -> None:
        """Answer nothing until `come_back`, and refuse nothing either."""
        self.is_silent = True

    def close(self) -> None:
        """Be closed by the client: what was sent arrives, nothing more is."""
        self.is_closed = True

    def go_down(self) -> None:
        """Lose the connection and refuse another."""
        self.is_down = True
        self.cut()

    def come_back(self) -> None:
        """Be well again, on a new connection."""
        if self.is_down or self.is_silent:
            self.is_down = self.is_silent = False
            self.cut()
        self.faults.clear()

    def deliver_late(self) -> None:
        """Let the requests arrive that were on their way when the connection was lost."""
        late, self._late = self._late, []
        for act in late:
            act()

    def hang_up(self) -> None:
        """Bring nothing more to the client: its loop is gone."""
        self._later = lambda _: None

    def flush(self) -> None:
        """Let everything arrive that was sent: the client is gone, its bytes are not."""
        while self._requests:
            self._requests.popleft()[1]()

    def _arrive(self) -> None:
        if not self._requests or self.is_silent:  # lost with its connection, or to be
            return
        verb, act, answer = self._requests.popleft()
        fault = self.faults.pop(verb, None)
        if fault == "late":
            self._late.append(act)
        if fault is None or fault == "drop reply":
            self._bring(partial(self._answer, answer, act()))
        if fault is not None:
            self.cut()

    def _bring(self, news: Callable[[], None]) -> None:
        self._news.append(news)
        self._later(self._hear)

    def _hear(self) -> None:
        if self._news:  # else it was lost with its connection
            self._news.popleft()()

    def _answer(self, answer: asyncio.Future[_T], result: _T) -> None:
        self._asked.pop(answer, None)
        if not answer.done():
            answer.set_result(result)


def _lost(verb: str) -> BackendUnavailableError:
    return BackendUnavailableError(f"no answer to {verb}: the connection was lost")


class SlowBackend(MemoryBackend):
    """Opens in two round trips and closes in one step, so that both can be cancelled half-way."""

    is_open = False
    network: Wire

    async def open(self, on_call: OnCall) -> None:
        await self.network.carry("open", lambda: None)
        self.is_open = True
        await super().open(on_call)
        await self.network.carry("open", lambda: None)

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        await super().aclose()
        self.is_open = False
        self.network.close()


def _as_coroutine(verb: str) -> Callable[..., Any]:
    send = getattr(SlowBackend, verb)

    async def sent(self: SlowBackend, *args: Any, **settings: Any) -> Any:
        await asyncio.sleep(0)  # as for a connection from a pool
        return await send(self, *args, **settings)

    return sent


class TaskBackend(SlowBackend):
    """Verbs are coroutines, and not sent before their task runs: what drivers with a pool do."""


for _verb in ("ping", "join", "leave", "renew", "inspect", "change_weight", "change_size", "revoke", "latch"):
    setattr(TaskBackend, _verb, _as_coroutine(_verb))
