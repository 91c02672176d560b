"""Semaphore and read-write lock against a model of the line: after every step exactly those are inside who should be.

With ``fair=True`` each task has a ticket of its own, so the order is strict and the model exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiodlock._core.line import LineId
from aiodlock.backends.memory import MemoryServer
from aiodlock.testing import run_virtual, settle
from tests.property.visitors import Town, town

SIZE = 4
FULL = 1 << 30


quick = settings(max_examples=60)


class Model:
    """The front of the line is inside while the weights fit the size. Nobody overtakes. Who is inside stays inside."""

    def __init__(self, size: int) -> None:
        self.first_size = self.size = size
        self.inside: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.refused: set[int] = set()

    def ask(self, who: int, weight: int) -> None:
        if not self.inside and not self.waiting:
            self.size = self.first_size
        self.waiting[who] = weight
        self._let_in()

    def leave(self, who: int) -> None:
        self.inside.pop(who, None)
        self.waiting.pop(who, None)
        self._let_in()

    def lighten(self, who: int) -> None:
        self.inside[who] = 1
        self._let_in()

    def resize(self, size: int) -> None:
        if self.inside or self.waiting:
            self.size = size
            self._let_in()

    def _let_in(self) -> None:
        for who, weight in list(self.waiting.items()):
            if weight > self.size:
                del self.waiting[who]
                self.refused.add(who)
        for who, weight in list(self.waiting.items()):
            if sum(self.inside.values()) + weight > self.size:
                return
            self.inside[who] = self.waiting.pop(who)


Step = tuple[str, int, int]  # what, who of those who are there or which client, how many

ENDS = ("leave", "leave", "cancel", "lose")


def steps_of(kinds: dict[str, st.SearchStrategy[int]], *, asked: Iterable[int]) -> st.SearchStrategy[list[Step]]:
    """Draw programs in which more come than go, so that some always wait."""
    ask = st.tuples(st.just("ask"), st.integers(0, 1), st.sampled_from(list(asked)))
    end = st.tuples(st.sampled_from(ENDS), st.integers(0, 9), st.just(0))
    others = [st.tuples(st.just(what), st.integers(1, 40), number) for what, number in kinds.items()]
    return st.lists(st.one_of(ask, ask, ask, end, end, *others), min_size=12, max_size=30)


permits = steps_of({"resize": st.integers(1, SIZE + 2), "sleep": st.just(0)}, asked=[1, 1, 2, 2, 3, SIZE, SIZE + 1])
readers = steps_of({"downgrade": st.just(0), "sleep": st.just(0)}, asked=[1, 1, FULL])


async def play(place: Town, model: Model, steps: Iterable[Step], ask: Callable[[int, int], Any]) -> None:
    """Take every step in the town and in the model, and compare."""
    for what, number, weight in steps:
        there = sorted(place.inside | place.waiting)
        if what == "ask":
            model.ask(len(place.visitors), weight)
            await place.comes(ask(number, weight))
        elif what == "sleep":
            await asyncio.sleep(number / 10)
        elif what == "resize":
            model.resize(weight)
            await place.clients[0].semaphore("k", permits=SIZE).resize(weight)
            await settle()
        elif there and what == "downgrade":
            await _downgrade(place, model, there[number % len(there)])
        elif there:
            who = there[number % len(there)]
            model.leave(who)
            await place.ends(place.visitors[who], what)
        assert place.inside == set(model.inside), f"after {what}"
        assert place.waiting == set(model.waiting), f"after {what}"
        assert {n for n, visitor in enumerate(place.visitors) if visitor.refused} == model.refused


async def _downgrade(place: Town, model: Model, who: int) -> None:
    if model.inside.get(who) == FULL:
        model.lighten(who)
        await place.visitors[who].hold.downgrade()
        await settle()


async def _semaphore(steps: list[Step]) -> None:
    async with town() as place:

        def ask(client: int, weight: int) -> Any:
            return Permits(place.clients[client].semaphore("k", permits=SIZE, ttl=3, fair=True), weight)

        await play(place, Model(SIZE), steps, ask)


class Permits:
    """A block of several permits."""

    def __init__(self, semaphore: Any, count: int) -> None:
        self._semaphore, self._count = semaphore, count

    async def __aenter__(self) -> Any:
        self._permit = await self._semaphore.acquire(self._count)
        return await self._permit.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._permit.__aexit__(*error)


async def _rwlock(steps: list[Step]) -> None:
    async with town() as place:

        def ask(client: int, weight: int) -> Any:
            lock = place.clients[client].rwlock("k", ttl=3, fair=True)
            return lock.write() if weight == FULL else lock.read()

        await play(place, Model(FULL), steps, ask)


@quick
@given(permits)
def test_a_semaphore_is_its_model(steps: list[Step]) -> None:
    """Weights, sizes that change, and every way to go."""
    run_virtual(_semaphore(steps))


@quick
@given(readers)
def test_a_read_write_lock_is_its_model(steps: list[Step]) -> None:
    """Readers, writers, downgrades, and every way to go."""
    run_virtual(_rwlock(steps))


# --- broken twins --------------------------------------------------------------------------------------------


def _overtake(size: int, inside: int, waiting: Iterable[int]) -> int:
    return sum(1 for weight in waiting if inside + weight <= size and (inside := inside + weight))


def _one_at_a_time(size: int, inside: int, waiting: Iterable[int]) -> int:
    return int(any(inside + weight <= size for weight in [next(iter(waiting), size + 1)]))


def _stale(server: MemoryServer, line: LineId, size: int) -> None:
    server._line(line, server.clock.now(), size=size).size = size


# What to break, and a program that shows it.
Twin = tuple[str, Callable[..., Any], Callable[..., Coroutine[Any, Any, None]], list[Step]]

TWINS: dict[str, Twin] = {
    "a light one overtakes": (
        "aiodlock.backends.memory.server.admit",
        _overtake,
        _semaphore,
        [("ask", 0, 3), ("ask", 1, 3), ("ask", 0, 1)],
    ),
    "a heavy release lets one in": (
        "aiodlock.backends.memory.server.admit",
        _one_at_a_time,
        _semaphore,
        [("ask", 0, 4), ("ask", 1, 1), ("ask", 0, 2), ("leave", 0, 0)],
    ),
    "a new size lets nobody in": (
        "aiodlock.backends.memory.server.MemoryServer.change_size",
        _stale,
        _semaphore,
        [("ask", 0, 4), ("ask", 1, 1), ("resize", 0, 5)],
    ),
    "a downgrade lets nobody in": (
        "aiodlock.backends.memory.server.MemoryServer.change_weight",
        lambda self, ticket, weight: self.renew([ticket])[0],
        _rwlock,
        [("ask", 0, FULL), ("ask", 1, 1), ("downgrade", 0, 0)],
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_is_caught(monkeypatch: pytest.MonkeyPatch, twin: str) -> None:
    """By the program that shows it, which is harmless without it."""
    name, broken, run, steps = TWINS[twin]
    run_virtual(run(steps))
    monkeypatch.setattr(name, broken)
    with pytest.raises(AssertionError, match="after"):
        run_virtual(run(steps))
