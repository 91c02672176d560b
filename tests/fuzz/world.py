"""One run: a server, some processes, tasks that want its locks, and everything that can go wrong, all from one seed."""

from __future__ import annotations

import asyncio
import random as global_random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from types import FrameType
from typing import Any
from unittest.mock import patch

from aiodlock import LockClient
from aiodlock._core.hold import Hold
from aiodlock.events import Event, TaskFailed
from aiodlock.testing import LoopClock
from aiodlock.testing.history import Violation
from aiodlock.testing.hostile import HostileNetwork, Weather
from tests.fuzz.judge import judge_client, judge_history
from tests.fuzz.machines import Connection, WatchedServer, short
from tests.fuzz.process import Process, SimulatedLoop, Storm
from tests.fuzz.program import Program
from tests.fuzz.wishes import Wish, draw_wishes
from tests.fuzz.witness import Witness

LONGEST_SECTION = 4.0  # times ttl: three steps of at most one, and their re-entries


@dataclass(frozen=True, slots=True)
class Verdict:
    seed: int
    violations: list[Violation]
    witness: Witness

    def __str__(self) -> str:
        found = f"seed {self.seed}: {self.witness.sections} sections, {len(self.violations)} violations"
        return "\n".join([self.witness.trace, found, *map(str, self.violations)])


def play(seed: int) -> Verdict:
    """Run *seed* from start to end and judge it."""
    global_random.seed(seed)  # the engine's own jitter
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimulatedLoop)
        world = World(seed, loop)
        lose = Hold._lose

        def losing(own: Hold, reason: str) -> None:
            if own._loss is None:
                world.witness.left(own, f"loses ({reason})")
            lose(own, reason)

        with patch.object(Hold, "_lose", losing):
            try:
                runner.run(world.run())
            except Storm:
                world.witness.accuse("storm", "the processes do not come to rest")
                world.revive()
        return Verdict(seed, judge_history(world.witness), world.witness)


class Machine:
    """A process with a client, its tasks, and its network."""

    def __init__(self, world: World, number: int) -> None:
        random = world.random
        drift = random.choice([0.0, 0.005, 0.009])
        self.process = Process(
            world.loop, f"p{number}", rate=1 + random.uniform(-drift, drift), offset=random.uniform(0, 1e6)
        )
        self.backend = Connection(self.process, world.server, world.witness)
        on_event = self._hear_of if world.is_loud else None
        self.client = LockClient(self.backend, name=self.process.name, clock=self.process, on_event=on_event)
        self.network = HostileNetwork(self.client, Random(random.getrandbits(32)), world.weather)
        self.closing: asyncio.Task[None] | None = None
        self._world = world
        self.programs: list[Program] = []
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, wish: Wish, *, rounds: int, within: float) -> None:
        world = self._world
        program = Program(self.process, self.client, world.witness, world.random, wish, pace=world.pace)
        name = f"{self.process.name}.{len(self.tasks) + 1}"
        self.programs.append(program)
        self.tasks.append(self.process.spawn(program.run(rounds=rounds, within=within), name=name))

    def _hear_of(self, event: Event) -> None:
        if isinstance(event, TaskFailed):
            self._world.witness.accuse("task failed", f"{self.process.name}: {event}")

    def close(self) -> None:
        if self.closing is None:
            self.closing = self.process.spawn(self.client.aclose())

    @property
    def is_alive(self) -> bool:
        return not self.process.is_dead

    @property
    def is_open(self) -> bool:
        return self.is_alive and self.backend.engine is not None and self.backend.engine.is_open

    @property
    def all_tasks(self) -> list[asyncio.Task[None]]:
        return [*self.tasks, *(child for program in self.programs for child in program.children)]


class World:
    def __init__(self, seed: int, loop: SimulatedLoop) -> None:
        self.random = random = Random(seed)
        self.loop = loop
        self.is_loud = seed % 5 == 0  # every hand-off is told of, and goes another way
        self.witness = Witness(loop.time)
        self.server = WatchedServer(LoopClock(loop), self.witness)
        # A waiting life is 5 s at most: a longer ttl behaves differently.
        self.ttl = 10 ** random.uniform(-0.7, 0.7) if random.random() < 0.6 else random.uniform(5, 20)
        self.pace = random.choice([0.01, 0.05, 0.2])
        self.weather = draw_weather(random, self.ttl)
        self.trouble = self.ttl * random.uniform(1, 4)  # seconds until all faults are over
        self.machines: list[Machine] = []
        self.cancelled: dict[asyncio.Task[None], tuple[float, float]] = {}

    async def run(self) -> None:
        self.loop.set_exception_handler(self._hear_of_error)
        await self._start()
        self._plan_faults()
        await asyncio.sleep(self.trouble)
        self._heal()
        await self._wait_for_tasks()
        await asyncio.sleep(self.weather.late + 3 * self.ttl + 2.0)
        self._look_at_books()
        await self._close()
        await asyncio.sleep(self.weather.late + 3 * self.ttl)
        self._look_at_server()
        await self._bury_the_dead()

    async def _start(self) -> None:
        random = self.random
        self.machines = [Machine(self, number) for number in range(1, random.randint(2, 4) + 1)]
        wishes = draw_wishes(random, self.ttl)
        rounds = random.choice([1, 1, 2, 3])  # once only: later traffic would wake a sleeper that was forgotten
        for machine in self.machines:
            await machine.process.spawn(machine.client.start())
            machine.backend.engine = machine.client._engine
            for _ in range(random.randint(1, 7)):
                machine.begin(random.choice(wishes), rounds=rounds, within=self.trouble)

    # --- faults ------------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        random = self.random
        for machine in self.machines:
            for _ in range(random.choice([0, 0, 1, 2])):
                self._some_time(machine, partial(self._freeze, machine))
            if machine is not self.machines[0] and random.random() < 0.15:
                self._some_time(machine, partial(self._kill, machine))
            if random.random() < 0.1:
                self._some_time(machine, lambda machine=machine: machine.close())
            for task in machine.tasks:
                if random.random() < 0.15:
                    self._some_time(machine, partial(machine.process.do, self._cancel, machine, task))
        if random.random() < 0.1:
            self.loop.call_later(random.random() * self.trouble, self.server.end_one, random.randrange(100))
        if random.random() < 0.1:
            self.loop.call_later(random.random() * self.trouble, self.server.forget_everything)

    def _some_time(self, machine: Machine, fault: Callable[[], None]) -> None:
        """Plan *fault* for some instant, or for some step between others of the same instant."""
        if self.random.random() < 0.5:
            self.loop.call_later(self.random.random() * self.trouble, fault)
        else:
            machine.process.after_steps(self.random.randint(1, 200), fault)

    def _freeze(self, machine: Machine) -> None:
        seconds = self.ttl * self.random.uniform(0.3, 2)
        self.witness.note(machine.process.name, f"freezes for {seconds:.6f}")
        machine.process.freeze(seconds)

    def _kill(self, machine: Machine) -> None:
        machine.process.die()
        self.witness.died(machine.process)

    def _cancel(self, machine: Machine, task: asyncio.Task[None]) -> None:
        if task.cancel():
            self.witness.note(machine.process.name, "cancels", task.get_name())
            self.cancelled[task] = self.loop.time(), machine.process.frozen

    def _heal(self) -> None:
        self.witness.note("world", "heals")
        for machine in self.machines:
            machine.network.heal()
            machine.process.expect_nothing()

    # --- the end -----------------------------------------------------------------------------------------------

    async def _wait_for_tasks(self) -> None:
        """Accuse those who are still not through when everybody had time enough, one after the other."""
        alive = [machine for machine in self.machines if machine.is_alive]
        count = sum(len(machine.all_tasks) for machine in alive)
        until = self.loop.time() + self.weather.late + 8 * self.ttl + count * (LONGEST_SECTION * self.ttl + 1)
        while pending := [task for machine in alive for task in machine.all_tasks if not task.done()]:
            if self.loop.time() >= until:
                for task in pending:
                    where = "".join(traceback.format_list(traceback.StackSummary.extract(_frames(task))))
                    self.witness.accuse("stuck", f"{task.get_name()}\n{where}")
                return
            await asyncio.wait(pending, timeout=until - self.loop.time())
        for machine in alive:
            self._look_at_tasks(machine)

    def _look_at_tasks(self, machine: Machine) -> None:
        for task in machine.all_tasks:
            if not task.cancelled() and (error := task.exception()):
                text = "".join(traceback.format_exception(error))
                self.witness.accuse("unexpected error", f"{task.get_name()} got {text}")
            if task in self.cancelled and not task.cancelled():
                self.witness.accuse("cancel swallowed", task.get_name())

    def _look_at_books(self) -> None:
        for machine in self.machines:
            if machine.is_open and machine.backend.engine is not None:
                for left in judge_client(machine.backend.engine):
                    self.witness.accuse("left over", f"{machine.process.name} keeps {left}")

    async def _close(self) -> None:
        """Close every client; a second later nothing of them stands on the server."""
        for machine in self.machines:
            if machine.is_open:
                machine.close()
        await asyncio.sleep(3.0)
        for machine in self.machines:
            if machine.is_alive and machine.closing is not None and not machine.closing.done():
                self.witness.accuse("stuck", f"closing {machine.process.name}")

    def _look_at_server(self) -> None:
        for line, ticket_id, connection in self.server.stands():
            self.witness.accuse("orphan", f"{connection.process.name}{short(ticket_id)} stands for {line} for ever")

    async def _bury_the_dead(self) -> None:
        """End what is left of this run in our own process."""
        self.revive()
        for machine in self.machines:
            for task in machine.all_tasks:
                task.cancel()
            machine.close()
        left = [task for machine in self.machines for task in (*machine.all_tasks, machine.closing) if task]
        await asyncio.wait(left, timeout=60)

    def revive(self) -> None:
        """Let the dead and the frozen run, on a good network, so that their tasks can end."""
        self.loop.set_exception_handler(lambda _loop, _context: None)
        for machine in self.machines:
            machine.network.heal()
            machine.process.revive()

    def _hear_of_error(self, _loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = "".join(traceback.format_exception(error)) if error else ""
        self.witness.accuse("error on the loop", f"{context.get('message')}\n{text}")


def _frames(task: asyncio.Task[None]) -> Iterator[tuple[FrameType, int]]:
    """Yield where a waiting task is, down to the innermost coroutine."""
    work: Any = task.get_coro()
    while work is not None and hasattr(work, "cr_frame"):
        yield work.cr_frame, work.cr_frame.f_lineno
        work = work.cr_await


def draw_weather(random: Random, ttl: float) -> Weather:
    """Choose how bad the network is, in terms of the lives of tickets: calm, cut off for lives, or all at once."""
    life = min(ttl, 5.0)
    delay = life * 10 ** random.uniform(-3.5, -0.8)
    theme = random.random()
    if theme < 0.1:
        return Weather(delay=delay, late=delay)
    if theme < (0.5 if ttl > life else 0.2):
        return Weather(
            delay=min(delay, life / 50), late=2 * life, cut=0.15, outage=random.uniform(1, 2.5) * life, arrives=1.0
        )
    return Weather(
        delay=delay,
        late=life * random.uniform(0.2, 3),
        is_late=random.choice([0.0, 0.05, 0.2]),
        cut=random.choice([0.0, 0.03, 0.15]),
        unnoticed=life * random.choice([0.0, 0.1, 1.0]),
        outage=life * random.choice([0.0, 0.3, 1.5, 3.0]),
        arrives=random.choice([0.3, 0.9]),
        call_lost=random.choice([0.0, 0.1, 0.5]),
        call_doubled=random.choice([0.0, 0.2]),
        ordered=random.random() < 0.5,
    )
