"""Random programs of all kinds against the model: after every step the same are inside, by the same lines.

Tasks of three clients ask for locks, reads, writes, permits, leadership, segments, latches and several of them at once;
they wait a while or for ever, leave, are cancelled, and lose what they hold; the semaphore gets another size.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from random import Random
from typing import Any

import pytest

from aiodlock.backends.memory import MemoryServer
from aiodlock.locks import segmented
from aiodlock.locks.race import Race
from aiodlock.testing import run_virtual
from tests.fuzz.asking import FULL, PERMITS, SIZES, STEPS_TO_OPEN, Asking, draw
from tests.fuzz.model import Model
from tests.property.test_line import _overtake
from tests.property.visitors import Town, Visitor, town

PROGRAMS, CHUNK, MANY_PROGRAMS = 200, 50, 2_000
STEPS = 60
WAYS = ("ask",) * 6 + ("leave",) * 3 + ("cancel", "lose", "downgrade", "resize", "count down", "sleep")

Lines = dict[str, tuple[list[int], list[int]]]  # weights inside, and waiting


class Program:
    """One program, run by real clients and by the model at once."""

    def __init__(self, place: Town, seed: int) -> None:
        self.chance = Random(seed)
        self.place = place
        self.model = Model(dict(SIZES))
        self.asked: list[Asking] = []
        self.story: list[str] = []
        self.compared = 0
        self._to_go = STEPS_TO_OPEN

    async def run(self) -> str | None:
        """Return the first difference, with what led to it."""
        difference = await self._play()
        while self._to_go:  # who waits for the latch is let go too
            await self._count_down()
        await asyncio.sleep(0.001)
        return difference

    async def _play(self) -> str | None:
        for _ in range(STEPS):
            await self._step(self.chance.choice(WAYS))
            pause = self.chance.uniform(0.1, 4) if self.story[-1] == "sleep" else 0.001
            await asyncio.sleep(pause)  # whatever can happen without time passing has happened then
            self.model.pass_time(asyncio.get_running_loop().time())
            if self.model.tied:
                return None
            self.compared += 1
            if difference := self._compare():
                return "\n".join([*self.story, difference])
        return None

    async def _step(self, way: str) -> None:
        here = sorted(self.model.lacks)
        who = self.chance.choice(here) if here else -1
        match way:
            case "ask":
                await self._ask(draw(self.chance))
            case "count down":
                await self._count_down()
            case "resize":
                await self._resize(self.chance.randint(1, PERMITS + 1))
            case "downgrade" if who >= 0 and self.model.inside["rwlock:c"].get(who) == FULL:
                await self._downgrade(who)
            case "leave" | "cancel" | "lose" if who >= 0:
                await self._end(who, way)
            case _:
                self.story.append("sleep")

    async def _ask(self, asking: Asking) -> None:
        who, now = len(self.asked), asyncio.get_running_loop().time()
        self.story.append(f"{who} asks for {asking}")
        self.asked.append(asking)
        self.model.ask(who, asking.stages, math.inf if asking.wait is None else now + asking.wait)
        await self.place.comes(asking.of(self.chance.choice(self.place.clients)))

    async def _end(self, who: int, way: str) -> None:
        visitor, which = self.place.visitors[who], self.chance.randrange(9)
        holds = _holds(visitor)
        if way == "lose" and holds:
            self.model.lose(who, _line(holds[which % len(holds)]))
        else:
            way = "leave" if way == "lose" else way
            self.model.leave(who)
        self.story.append(f"{who}: {way}")
        await self.place.ends(visitor, way, which=which)

    async def _downgrade(self, who: int) -> None:
        holds = _holds(self.place.visitors[who])
        write = next((hold for hold in holds if hold._place.ticket.line.kind == "rwlock"), None)
        self.story.append(f"{who} downgrades")
        if write is not None:  # a multi-lock that waits for others has nobody who could
            self.model.inside["rwlock:c"][who] = 1
            self.model.let_in(["rwlock:c"])
            await write.downgrade()

    async def _resize(self, permits: int) -> None:
        self.story.append(f"{permits} permits")
        self.model.resize("semaphore:b", permits)
        await self.chance.choice(self.place.clients).semaphore("b", permits=PERMITS).resize(permits)

    async def _count_down(self) -> None:
        self.story.append("one step less")
        self._to_go = max(0, self._to_go - 1)
        latch = self.chance.choice(self.place.clients).latch("z", count=STEPS_TO_OPEN, ttl=3600)
        assert await latch.count_down() == self._to_go
        if not self._to_go:
            self.model.sizes["latch:z"] = math.inf
            self.model.let_in(["latch:z"])

    # --- comparing ---------------------------------------------------------------------------------------------

    def _compare(self) -> str | None:
        through = self.model.through()
        wanted = through, set(self.model.lacks) - through, self._lines_by_model(), self._holds_by_model(through)
        seen = self.place.inside, self.place.waiting, _lines_of(self.place.server), self._holds_seen()
        names = ("inside", "waiting", "in line", "held")
        return next((f"{n}: {a} wanted, {b} seen" for n, a, b in zip(names, wanted, seen, strict=True) if a != b), None)

    def _lines_by_model(self) -> Lines:
        lines = {
            name: (sorted(self.model.inside[name].values()), sorted(self.model.waiting[name].values()))
            for name in SIZES
            if not name.startswith("latch")
        }
        return {name: weights for name, weights in lines.items() if any(weights)}

    def _holds_by_model(self, through: set[int]) -> dict[int, list[str]]:
        return {who: sorted(line for line in SIZES if who in self.model.inside[line]) for who in through}

    def _holds_seen(self) -> dict[int, list[str]]:
        inside = {who: self.place.visitors[who] for who in self.place.inside}
        lines = {who: map(_line, _holds(v)) for who, v in inside.items()}
        return {who: sorted(names) or ["latch:z"] for who, names in lines.items()}


def _holds(visitor: Visitor) -> list[Any]:
    if visitor.hold is None or isinstance(visitor.hold, Asking):
        return []
    return list(getattr(visitor.hold, "holds", [visitor.hold]))


def _line(hold: Any) -> str:
    return ":".join(hold._place.ticket.line)


def _lines_of(server: MemoryServer) -> Lines:
    lines: Lines = defaultdict(lambda: ([], []))
    for row in server.inspect("*", "*"):
        if row.kind != "segments":  # where users agree on their number
            lines[f"{row.kind}:{row.key}"][not row.inside].append(row.weight)
    return {name: (sorted(inside), sorted(waiting)) for name, (inside, waiting) in lines.items()}


async def play(seed: int) -> tuple[str | None, int]:
    """Return where a program and the model part, and how many steps were compared."""
    difference, compared = None, 0
    try:
        async with town(3) as place:
            program = Program(place, seed)
            difference = await program.run()
            compared = program.compared
    except AssertionError as error:  # somebody, or something, is left when all have gone
        difference = difference or str(error)
    return difference, compared


def check(seeds: range) -> None:
    """Find no difference, having looked at most of the steps: a program ends where the model leaves something open."""
    compared = 0
    for seed in seeds:
        difference, steps = run_virtual(play(seed))
        assert not difference, f"seed {seed}:\n{difference}"
        compared += steps
    assert compared > 0.9 * STEPS * len(seeds)


@pytest.fixture(autouse=True)
def _any_begins_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which segment `any` tries first is left to chance; the model has none."""
    monkeypatch.setattr(segmented.random, "choice", lambda locks: locks[0])


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_no_program_differs_from_the_model(first: int) -> None:
    """Two hundred of them."""
    check(range(first, first + CHUNK))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_none_of_many_programs_differs_from_the_model() -> None:
    check(range(PROGRAMS, MANY_PROGRAMS))


# --- broken twins --------------------------------------------------------------------------------------------


def _late_losers(self: Race[Any]) -> None:
    """Give nothing up that was got after the winner."""
    for waiter, (_, _, give_up) in self._runners.items():
        if not waiter.done():
            waiter.cancel()
            give_up(waiter)


# What to break: one order, the end of waiting, the line, its size, the end of a race, hearing of a loss, giving back.
TWINS: dict[str, Any] = {
    "aiodlock.locks.multi._in_order": lambda members: members,
    "aiodlock._core.engine.Engine.limit": lambda self, future, seconds, outcome: None,
    "aiodlock.backends.memory.server.admit": _overtake,
    "aiodlock.backends.memory.MemoryServer.change_size": lambda self, line_id, size: None,
    "aiodlock.locks.race.Race.end": _late_losers,
    "aiodlock._core.cohort.Cohort.place_gone": lambda self, place, reason: None,
    "aiodlock.locks.multi._give_back": lambda holds: ([], None),
}


@pytest.mark.parametrize("broken", TWINS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_twin_differs(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the first programs."""
    monkeypatch.setattr(broken, TWINS[broken])
    with pytest.raises(AssertionError, match="seed"):
        check(range(CHUNK))
