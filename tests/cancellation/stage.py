"""The stage of one run: a memory server, our client over a slow wire, another client, and neighbours of the subject."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from aiodlock._core.line import LineId, Row, Ticket
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.client import LockClient
from aiodlock.errors import AcquireTimeoutError, ClientClosedError, LockLostError
from aiodlock.events import EventSink
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.testing import LoopClock
from tests.cancellation import remains
from tests.cancellation.kinds import KEY, Kind
from tests.cancellation.wire import TRIP, Later, SlowBackend, Wire, after_a_trip

__all__ = ["SECTION", "TTL", "Stage"]

TTL = 20.0  # far longer than any run, so that no orphan ends by itself
SECTION = 0.002  # what somebody does inside
_LOOKS = 20  # how often to look whether anything is left, before it counts


class Stage:
    """Everything one run needs, and what must be left of it: nothing."""

    def __init__(
        self,
        kind: Kind,
        policy: Mapping[str, Any],
        *,
        backend: type[SlowBackend] = SlowBackend,
        later: Later = after_a_trip,
        on_event: EventSink | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.kind = kind
        self.policy = {"ttl": TTL, **policy}
        self.clock = LoopClock(self.loop)
        self.server = MemoryServer(clock=self.clock)
        self.wires: list[Wire] = []
        self.backends: list[SlowBackend] = []
        self._make_backend, self._later, self._on_event = backend, later, on_event
        self.locks = self.new_client()
        self.other = self.new_neighbour()
        self.on_arm: list[Callable[[], None]] = []
        self.faults: list[str] = []
        self._inside = 0
        self._overlap_is_allowed = False
        self._planned: list[asyncio.Future[None]] = []
        self._neighbours: list[asyncio.Task[None]] = []
        self._stock: SegmentedStock | None = None
        self.others: set[asyncio.Task[Any]] = set()  # tasks of somebody else's process, in truth

    @property
    def wire(self) -> Wire:
        """That of our client."""
        return self.wires[0]

    @property
    def trouble(self) -> Any:
        """Brings the trouble of a state upon our client's connections."""
        return self.wire

    async def open(self) -> None:
        await self.locks.start()
        await self.other.start()

    # --- for operations and states -----------------------------------------------------------------------------

    def arm(self) -> None:
        """Begin what is swept: from here on it is struck, and the server's troubles begin."""
        for begin in self.on_arm:
            begin()

    def new_client(self) -> LockClient:
        """Return another client of the same server under our name, not started."""
        wire = self._new_wire(self._later)
        wire.faults = self.wires[0].faults
        wire.backend = backend = self._make_backend(server=self.server, network=wire, clock=self.clock)
        self.backends.append(backend)
        return LockClient(backend, name="ours", clock=self.clock, on_event=self._on_event)

    def new_neighbour(self) -> LockClient:
        """Return the other client, which is near its server."""
        near = self._new_wire(self.loop.call_soon)
        return LockClient(MemoryBackend(server=self.server, network=near), name="other", clock=self.clock)

    def lock(self, **policy: Any) -> Any:
        """Return what our client is swept with."""
        return self.kind.ours(self.locks, **self.policy | policy)

    def other_lock(self) -> Any:
        """Return what another client excludes us with."""
        return self.kind.theirs(self.other, ttl=TTL)

    async def section(self) -> None:
        """Be inside for a while."""
        with self.alone():
            await asyncio.sleep(SECTION)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Say that no more may be inside than this kind allows."""
        self._inside += 1
        if self._inside > self.kind.most and not self._overlap_is_allowed:
            self.faults.append(f"{self._inside} inside")
        try:
            yield
        finally:
            self._inside -= 1

    def allow_overlap(self) -> None:
        """Expect that somebody loses a hold, who may not know it yet while the next one is inside."""
        self._overlap_is_allowed = True

    def balance(self, stock: SegmentedStock) -> None:
        """Expect that the books of *stock* balance in the end, and that nothing of the order ``o-1`` is kept."""
        self._stock = stock

    def lose(self) -> None:
        """End what we hold, as an administrator would."""
        self.allow_overlap()
        for row in self.ours:
            if row.inside:
                self.server.leave(Ticket.of(LineId(row.kind, row.key), row.id), None, bury=False)

    def open_latch(self) -> None:
        """Count the latch down to nothing, as another client."""
        self.server.latch(LineId("latch", KEY), self.other.backend, count=1, down=1, operation="theirs", ttl=TTL)

    def later(self, delay: float, act: Callable[[], object]) -> None:
        """Have something happen that is nobody's task."""
        happened = self.loop.create_future()
        self._planned.append(happened)

        def happen() -> None:
            act()
            happened.set_result(None)

        self.loop.call_later(delay, happen)

    def neighbour(self, work: Coroutine[Any, Any, None], *, is_ours: bool = True) -> None:
        """Have somebody do *work* beside the subject; it must come to an end. Only ours are struck with all tasks."""
        task = self.loop.create_task(work)
        self._neighbours.append(task)
        if not is_ours:
            self.others.add(task)

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

    # --- what is left ------------------------------------------------------------------------------------------

    @property
    def ours(self) -> list[Row]:
        """Our tickets on the server, without those that stay on purpose."""
        rows = self.server.inspect("*", "*")
        return [row for row in rows if row.owner == "ours" and row.kind not in self.kind.keeps]

    async def settle(self, *, soon: float, within: float) -> None:
        """See the neighbours off, who end *soon*, and note whatever is still there *within* seconds after that."""
        await asyncio.gather(*self._planned)
        await self._see_neighbours_off(soon)
        self.wire.deliver_late()
        for _ in range(_LOOKS):
            if not (left := list(self._left())):
                break
            await asyncio.sleep(within / _LOOKS)
        self.faults += left
        self.faults += self._wrong_books()
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
        self.faults += self.connections
        self.faults += [f"ticket after aclose: {row}" for row in self.server.inspect("*", "*")]
        self.faults += remains.tasks() + remains.timers(self.loop)

    def hang_up(self) -> None:
        """Let what was sent arrive after the loop is gone."""
        for wire in self.wires:
            wire.hang_up()
        for wire in self.wires:
            wire.flush()

    @property
    def connections(self) -> list[str]:
        """Those still open."""
        return [f"open connection: {backend!r}" for backend in self.backends if backend.is_open]

    async def _see_neighbours_off(self, soon: float) -> None:
        if not self._neighbours:
            return
        _, stuck = await asyncio.wait(self._neighbours, timeout=soon)
        for task in stuck:
            self.faults.append("a neighbour is stuck")
            task.cancel()
        for result in await asyncio.gather(*self._neighbours, return_exceptions=True):
            if isinstance(result, Exception):
                self.faults.append(f"a neighbour got {result!r}")

    def _wrong_books(self) -> Iterator[str]:
        if self._stock is not None:
            ledger = self.server.ledger(self._stock._terms)
            if not (audit := ledger.audit(self.clock.now())).is_balanced:
                yield f"books: {audit}"
            if audit.orders - ("o-2" in ledger._orders):
                yield f"orphan: {audit.orders} are kept by orders"

    def _left(self) -> Iterator[str]:
        if self.wire.on_its_way:
            yield "something is on its way"
        for row in self.ours:
            yield f"orphan: {'inside' if row.inside else 'waiting'} {row.key}"
        yield from remains.tasks()
        if (engine := self.locks._engine) is not None:
            yield from remains.of_engine(engine, self.kind.keeps)

    def _new_wire(self, later: Later) -> Wire:
        wire = Wire(later)
        self.wires.append(wire)
        return wire
