"""A bad network by chance: every message takes its own time, connections are cut, what was sent may arrive later.

::

    network = HostileNetwork(locks, random.Random(seed), Weather(cut=0.02, late=3.0))    # a client of memory://
    network.heal()                                                                     # from now on all is well

Made for virtual time (`run_virtual`): a seed then always gives the same run.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from aiodlock.backends.memory import MemoryBackend, Network
from aiodlock.errors import BackendUnavailableError, ConfigurationError

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["HostileNetwork", "Weather"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad it is. Times are the most seconds something takes, the others chances between 0 and 1."""

    delay: float = 0.005  # of a message on its way
    late: float = 1.0  # of one that is late
    is_late: float = 0.0  # of any message
    cut: float = 0.0  # of the connection, when a request is sent and when it arrives
    unnoticed: float = 0.0  # seconds until the client sees that it was cut
    outage: float = 0.0  # seconds from then until it is connected again
    arrives: float = 0.5  # that what is on its way at the cut arrives all the same, late
    call_lost: float = 0.0
    call_doubled: float = 0.0
    ordered: bool = True  # requests of one connection arrive in order, and so do its answers


@dataclass(slots=True, eq=False)
class _Request:
    act: Callable[[], Any]
    answer: asyncio.Future[Any]
    has_arrived: bool = False

    def arrive(self) -> object:
        self.has_arrived = True
        return self.act()


@dataclass(slots=True, eq=False)
class _Connection:
    requests: dict[_Request, None] = field(default_factory=dict)  # without an answer yet
    last_arrival: float = 0.0
    last_answer: float = 0.0
    is_cut: bool = False


class HostileNetwork(Network):
    """The network of one memory client, as bad as its `weather`; all of its chances come from *random*."""

    def __init__(self, client: LockClient, random: Random, weather: Weather) -> None:
        if not isinstance(client.backend, MemoryBackend):
            raise ConfigurationError(
                f"{client!r} has a real network: use aiodlock.testing.proxy.FaultProxy in front of it"
            )
        self.weather = weather
        self.cuts = 0
        self._backend = client.backend
        self._backend.network = self
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # what is on its way is no part of the client any more
        self._connection: _Connection | None = _Connection()
        self._reconnects = False

    @property
    def is_up(self) -> bool:
        """Whether a request sent now would arrive in its time."""
        return self._connection is not None and not self._connection.is_cut

    def heal(self) -> None:
        """Be calm from now on; what is late already still arrives late."""
        self.weather = Weather(delay=min(self.weather.delay, 0.005))
        if self._connection is None:
            self._reconnect()
        elif self._connection.is_cut:
            self._notice(self._connection)

    def cut(self) -> None:
        """Cut the connection; the client sees it later, and is connected again later still."""
        connection = self._connection
        if connection is None or connection.is_cut:
            return
        connection.is_cut = True
        self.cuts += 1
        for request in connection.requests:
            if not request.has_arrived:
                self._strand(request.arrive)
        self._after(self._up_to(self.weather.unnoticed), self._notice, connection)

    def carry(self, verb: str, act: Callable[[], _T]) -> Awaitable[_T]:
        answer: asyncio.Future[_T] = self._loop.create_future()
        if self._happens(self.weather.cut):
            self.cut()
        if self._connection is None:
            self._after(self._delay(), _fail, answer)
            return answer
        request = _Request(act, answer)
        self._connection.requests[request] = None
        if self._connection.is_cut:
            self._strand(request.arrive)
        else:
            self._connection.last_arrival = at = self._arrival(self._connection.last_arrival)
            self._at(at, self._arrive, request, self._connection)
        return answer

    def push(self, deliver: Callable[[], None]) -> None:
        if self._reconnects:  # the client's own wire says so: that cannot be lost
            self._after(0.0, deliver)
            return
        if self._happens(self.weather.call_lost):
            return
        for _ in range(2 if self._happens(self.weather.call_doubled) else 1):
            self._after(self._delay(), self._deliver, deliver, self._connection)

    # --- on its way --------------------------------------------------------------------------------------------

    def _arrive(self, request: _Request, connection: _Connection) -> None:
        if request.has_arrived or connection.is_cut:
            return
        result = request.arrive()
        if self._happens(self.weather.cut):
            self.cut()
        connection.last_answer = at = self._arrival(connection.last_answer)
        self._at(at, self._answer, request, connection, result)

    def _answer(self, request: _Request, connection: _Connection, result: object) -> None:
        if not connection.is_cut:
            connection.requests.pop(request, None)
            if not request.answer.done():
                request.answer.set_result(result)

    def _deliver(self, deliver: Callable[[], None], connection: _Connection | None) -> None:
        if self.is_up and connection is self._connection:
            deliver()
        else:
            self._strand(deliver)

    def _strand(self, arrive: Callable[[], object]) -> None:
        """Leave what was on its way over a connection that was cut: it arrives late, or never."""
        if self._happens(self.weather.arrives):
            self._after(self._up_to(self.weather.late), arrive)

    def _notice(self, connection: _Connection) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        for request in connection.requests:
            _fail(request.answer)
        self._after(self._up_to(self.weather.outage), self._reconnect)

    def _reconnect(self) -> None:
        if self._connection is None:
            self._connection = _Connection()
            self._reconnects = True
            self._backend.reconnect()
            self._reconnects = False

    # --- chances -----------------------------------------------------------------------------------------------

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _up_to(self, seconds: float) -> float:
        return self._random.random() * seconds

    def _delay(self) -> float:
        return self._up_to(self.weather.late if self._happens(self.weather.is_late) else self.weather.delay)

    def _arrival(self, last: float) -> float:
        at = self._loop.time() + self._delay()
        return max(at, math.nextafter(last, math.inf)) if self.weather.ordered else at

    def _at(self, when: float, act: Callable[..., object], *args: object) -> None:
        self._loop.call_at(when, act, *args, context=self._context)

    def _after(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        self._at(self._loop.time() + seconds, act, *args)


def _fail(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(BackendUnavailableError("no answer: the connection was lost"))
