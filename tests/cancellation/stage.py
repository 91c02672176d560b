"""The stage of one run: a memory server, our client over a slow wire, another client, and neighbours of the subject."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from aiodlock._core.line import LineId, Row, Ticket
from aiodlock._core.place import Place
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.client import LockClient
from aiodlock.clock import Clock
from aiodlock.errors import AcquireTimeoutError, ClientClosedError, LockLostError
from aiodlock.testing import LoopClock

from tests.cancellation.kinds import Kind
from tests.cancellation.wire import TRIP, SlowBackend, Wire

__all__ = ["SECTION", "TTL", "Stage", "staged"]

TTL = 20.0  # far longer than any run, so that no orphan ends by itself
SECTION = 0.002  # what somebody does inside


class Stage:
    """Everything one run needs, and what must be left of it: nothing."""

    def __init__(
        self, kind: Kind, policy: Mapping[str, Any], *, backend: type[SlowBackend] = SlowBackend, wire: Wire | None = None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.kind = kind
        self.policy = {"ttl": TTL, **policy}
        self.clock: Clock = LoopClock(self.loop)
        self.server = MemoryServer(clock=self.clock)
        self.wire = wire or Wire()
        self._wires: list[Wire] = []
        self._backend = backend
        self.backends: list[SlowBackend] = []
        self.locks = self.new_client(wire=self.wire)
        self.other = LockClient(MemoryBackend(server=self.server), name="other", clock=self.clock)
        self.arm: Callable[[], None] = lambda: None
        self.make_lock: Callable[[Stage], Any] | None = None  # a twin's
        self.faults: list[str] = []
        self._inside = 0
        self._was_lost = False
        self._planned = 0
        self._neighbours: list[asyncio.Task[None]] = []

    # --- for operations and states -----------------------------------------------------------------------------

    def new_client(self, *, wire: Wire | None = None) -> LockClient:
        """Return another client of the same server under our name, not started."""
        wire = wire or Wire()
        backend = self._backend(server=self.server, network=wire, clock=self.clock)
        wire.backend = backend
        self._wires.append(wire)
        self.backends.append(backend)
        return LockClient(backend, name="ours", clock=self.clock)

    def lock(self, **policy: Any) -> Any:
        """Return our lock, or the twin that stands for it."""
        if self.make_lock is not None:
            return self.make_lock(self)
        return self.kind.ours(self.locks, **self.policy | policy)

    def other_lock(self) -> Any:
        return self.kind.theirs(self.other, ttl=TTL)

    async def section(self) -> None:
        """Be inside for a while; nobody else is."""
        with self.alone():
            await asyncio.sleep(SECTION)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Say that nobody else may be inside, unless a hold was lost: then its task may not know it yet."""
        self._inside += 1
        if self._inside > self.kind.most and not self._was_lost:
            self.faults.append(f"{self._inside} inside")
        try:
            yield
        finally:
            self._inside -= 1

    def neighbour(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have somebody do *work* beside the subject; it must come to an end."""
        task = self.loop.create_task(work)
        self._neighbours.append(task)
        return task

    def later(self, delay: float, act: Callable[[], object]) -> None:
        """Have something happen that is nobody's task."""
        self._planned += 1

        def happen() -> None:
            self._planned -= 1
            act()

        self.loop.call_later(delay, happen)

    async def pass_through(
        self, lock: Any, *, after: float = 0.0, stay: float = SECTION, entered: asyncio.Event | None = None
    ) -> None:
        """Be a neighbour who enters once; a client closed meanwhile, or a lost hold, is not its concern."""
        await asyncio.sleep(after)
        with suppress(ClientClosedError, LockLostError, AcquireTimeoutError):
            async with lock:
                if entered is not None:
                    entered.set()
                with self.alone():
                    await asyncio.sleep(stay)

    def expect_loss(self) -> None:
        """Allow two inside: who lost a hold may not know it yet."""
        self._was_lost = True

    def lose(self) -> None:
        """End what we hold, as an administrator would."""
        self._was_lost = True
        for row in self.ours:
            if row.inside:
                self.server.leave(_ticket(row), None, bury=False)

    # --- what is left ------------------------------------------------------------------------------------------

    @property
    def ours(self) -> list[Row]:
        """Our tickets on the server, without those that stay on purpose."""
        rows = self.server.inspect("*", "*")
        return [row for row in rows if row.owner == "ours" and row.kind not in self.kind.keeps]

    async def settle(self, *, soon: float, within: float) -> None:
        """See the neighbours off, who end *soon*, and note whatever is still there *within* seconds after that."""
        await self._see_neighbours_off(soon)
        self.wire.deliver_late()
        until = self.loop.time() + within
        while (left := list(self._left())) and self.loop.time() < until:
            await asyncio.sleep(0.001)
        self.faults += left
        hold = await self.other_lock().try_acquire()
        if hold is None:
            self.faults.append("another client cannot take the lock")
        else:
            await hold.release()

    async def close(self) -> None:
        """Close both clients; then no task, timer, connection or ticket is left."""
        await self.locks.aclose()
        await self.other.aclose()
        await asyncio.sleep(2 * TRIP)  # what the wires have planned is over
        self.faults += [f"open connection: {backend!r}" for backend in self.backends if backend.is_open]
        self.faults += [f"ticket after aclose: {row}" for row in self.server.inspect("*", "*")]
        self.faults += self._tasks_left()
        self.faults += [f"timer after aclose: {timer!r}" for timer in self._timers()]

    async def _see_neighbours_off(self, soon: float) -> None:
        while self._planned:
            await asyncio.sleep(TRIP)
        neighbours, self._neighbours = self._neighbours, []
        if not neighbours:
            return
        _, stuck = await asyncio.wait(neighbours, timeout=soon)
        for task in stuck:
            self.faults.append("a neighbour is stuck")
            task.cancel()
        for result in await asyncio.gather(*neighbours, return_exceptions=True):
            if isinstance(result, Exception):
                self.faults.append(f"a neighbour got {result!r}")

    def _left(self) -> Iterator[str]:
        if self.wire.on_its_way:
            yield "something is on its way"
        for row in self.ours:
            yield f"orphan: {'inside' if row.inside else 'waiting'} {row.key}"
        yield from self._tasks_left()
        engine = self.locks._engine
        if engine is None:
            return
        if engine.waiting:
            yield f"waiting is {engine.waiting}"
        for name, things in {
            "places": self._not_kept(engine.places.values()),
            "leaving": self._not_kept(engine.leaving),
            "cohorts": [cohort for cohort in engine._cohorts.values() if cohort.line.kind not in self.kind.keeps],
            "owners": [owner for owners in engine._owners.values() for owner in owners],
            "work": engine.work._work,
            "visits": self._not_kept(place for places in engine.watchdog._slots.values() for place in places),
            "own cohorts": [cohort for cohort in engine._alone if not cohort.retired],
            "latches": engine.latches._watched,
        }.items():
            if things:
                yield f"{name} left: {things}"

    def _not_kept(self, places: Iterable[Place]) -> list[Place]:
        return [place for place in places if place.ticket.line.kind not in self.kind.keeps]

    def _tasks_left(self) -> list[str]:
        return [f"task: {task!r}" for task in asyncio.all_tasks() - {asyncio.current_task()}]

    def _timers(self) -> list[asyncio.TimerHandle]:
        return [timer for timer in getattr(self.loop, "_scheduled", ()) if not timer.cancelled()]


@asynccontextmanager
async def staged(kind: Kind, policy: Mapping[str, Any], **settings: Any) -> AsyncIterator[Stage]:
    """Open a stage and close it."""
    stage = Stage(kind, policy, **settings)
    await stage.locks.start()
    await stage.other.start()
    try:
        yield stage
    finally:
        await stage.close()


def _ticket(row: Row) -> Ticket:
    return Ticket(LineId(row.kind, row.key), row.id)
