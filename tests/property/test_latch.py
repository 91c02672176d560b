"""The latch against its model, a number, while requests and answers are lost, doubled and late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiodlock import Latch
from aiodlock.backends.memory import MemoryServer
from aiodlock.testing import Faults, run_virtual
from tests.property.test_line import quick
from tests.property.visitors import town

COUNT = 6

Step = tuple[str, int, int]  # what, which client, how many

steps = st.lists(
    st.one_of(
        st.tuples(st.just("down"), st.integers(0, 1), st.integers(1, 2)),
        st.tuples(st.just("wait"), st.integers(0, 1), st.just(0)),
        st.tuples(
            st.sampled_from(["drop_request", "drop_reply", "drop_calls", "double_calls", "late"]),
            st.integers(0, 1),
            st.integers(1, 3),
        ),
        st.tuples(st.just("cancel"), st.integers(0, 9), st.just(0)),
    ),
    min_size=6,
    max_size=20,
)


async def play(program: list[Step]) -> None:
    """Count down and wait by turns; after a while everybody knows whether it is open."""
    async with town() as place:
        networks = [Faults(client) for client in place.clients]
        latches = [client.latch("k", count=COUNT, ttl=30) for client in place.clients]
        left, late = COUNT, []
        for what, number, weight in program:
            there = sorted(place.waiting)
            match what:
                case "down":
                    left = max(0, left - weight)
                    assert await latches[number].count_down(weight) == left
                case "wait":
                    await place.comes(_Through(latches[number]))
                case "cancel" if there:
                    await place.ends(place.visitors[there[number % len(there)]], "cancel")
                case _:
                    _disturb(networks[number % 2], what, weight, late)
                    continue
            await asyncio.sleep(2)  # more than a third of a waiting life: who was not called looks
            for request in [request for request in late if request.is_caught]:
                request.deliver()
            assert [await latch.count() for latch in latches] == [left, left]
            assert not (place.inside if left else place.waiting), f"after {what}"
        await latches[0].count_down(COUNT)
        await asyncio.sleep(2)


class _Through:
    """Who has gone through a latch is inside; nothing keeps it there."""

    def __init__(self, latch: Latch) -> None:
        self._latch = latch

    async def __aenter__(self) -> Latch:
        await self._latch.opened()
        return self._latch

    async def __aexit__(self, *error: object) -> None: ...


def _disturb(network: Faults, how: str, times: int, late: list[Any]) -> None:
    match how:
        case "drop_request":
            network.drop_request("latch", times)
        case "drop_reply":
            network.drop_reply("latch", times)
        case "late":
            late.append(network.hold_back("latch"))
        case "drop_calls":
            network.calls = "drop"
        case "double_calls":
            network.calls = "double"


@quick
@given(steps)
def test_a_latch_is_its_model(program: list[Step]) -> None:
    """Every step counts once, and everybody is let through at zero and not before."""
    run_virtual(play(program))


# --- broken twins --------------------------------------------------------------------------------------------


def _without_memory(server: MemoryServer, *args: Any, **how: Any) -> int:
    if latch := server._latches.get(args[0]):
        latch.operations.clear()
    return _latch(server, *args, **how)


_latch = MemoryServer.latch


async def _looks_open(latch: Any) -> bool:
    return bool(await latch.count() <= 2)


TWINS: dict[str, tuple[str, Any, list[Step]]] = {
    "a step sent again counts again": (
        "aiodlock.backends.memory.server.MemoryServer.latch",
        _without_memory,
        [("drop_reply", 0, 1), ("down", 0, 1)],
    ),
    "nobody looks": (
        "aiodlock._core.latches.Latches._plan",
        lambda self, line, watched: None,
        [("wait", 0, 0), ("drop_calls", 0, 1), ("down", 1, 2), ("down", 1, 2), ("down", 1, 2)],
    ),
    "a latch opens early": (
        "aiodlock.locks.latch.Latch._is_open",
        _looks_open,
        [("wait", 0, 0), ("down", 0, 2), ("down", 0, 2)],
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_is_caught(monkeypatch: pytest.MonkeyPatch, twin: str) -> None:
    """By the program that shows it, which is harmless without it."""
    name, broken, program = TWINS[twin]
    run_virtual(play(program))
    monkeypatch.setattr(name, broken)
    with pytest.raises(AssertionError):
        run_virtual(play(program))
