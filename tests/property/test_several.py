"""Multi-locks and segments: whatever is asked for together, nobody meets, nobody deadlocks, nothing is left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiodlock import LockClient
from aiodlock.testing import run_virtual
from tests.property.test_line import ENDS, quick
from tests.property.visitors import Town, town

Step = tuple[str, int, Any]  # what, which client or who of those who are there, members or way

SEGMENTS = 3
KEYS = {
    "a": (1, lambda client: client.lock("a")),
    "b": (2, lambda client: client.semaphore("b", permits=2)),
    "c": (1, lambda client: client.rwlock("c").write()),
    "d": (1, lambda client: client.lock("d", fair=True)),
    "e": (9, lambda client: client.rwlock("e").read()),
}

end = st.tuples(st.sampled_from([*ENDS, "sleep"]), st.integers(0, 20), st.none())
members = st.lists(st.sampled_from([*KEYS, "b"]), min_size=1, max_size=5)
ways = st.sampled_from(["any", "any", "all", "steal", "user-1", "user-2", "user-3", "multi"])


def _program(ask: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Step]]:
    ask = st.tuples(st.just("ask"), st.integers(0, 2), ask)
    return st.lists(st.one_of(ask, ask, end), min_size=10, max_size=25)


async def play(place: Town, steps: list[Step], ask: Callable[[int, Any], Any], check: Callable[[], None]) -> None:
    for what, number, wanted in steps:
        there = sorted(place.inside | place.waiting)
        if what == "ask":
            await place.comes(ask(number, wanted))
        elif what == "sleep":
            await asyncio.sleep(number / 10)
        elif there:
            await place.ends(place.visitors[there[number % len(there)]], what)
        check()
        await asyncio.sleep(2)
        check()


async def _multi(steps: list[Step]) -> None:
    """Members of every kind, in any order, some twice; two of a semaphore are one ticket for two."""
    async with town(3) as place:
        asked: list[Counter[str]] = []

        def ask(number: int, wanted: list[str]) -> Any:
            asked.append(Counter(wanted))
            client = place.clients[number]
            return client.multi(*(KEYS[key][1](client) for key in wanted if key != "b" or asked[-1]["b"] <= 2))

        def check() -> None:
            for key, (size, _) in KEYS.items():
                inside = sum(_weight(key, asked[who]) for who in place.inside)
                assert inside <= size, f"{inside} are in {key}"

        steps = [step for step in steps if step[0] != "ask" or step[2].count("b") <= 2]
        await play(place, steps, ask, check)


def _weight(key: str, wanted: Counter[str]) -> int:
    return wanted[key] if key == "b" else min(1, wanted[key])


async def _segments(steps: list[Step]) -> None:
    """One each in a segment, and none that is unused while somebody waits for any of them."""
    async with town(3) as place:
        asked: list[str] = []

        def ask(number: int, way: str) -> Any:
            asked.append(way)
            hot = place.clients[number].segmented("k", segments=SEGMENTS, ttl=5)
            match way:
                case "any":
                    return hot.any()
                case "all":
                    return hot.all()
                case "steal":
                    return hot.lock("user-1", steal=True)
                case "multi":
                    return _twice(place.clients[number], hot)
            return hot.lock(way)

        def check() -> None:
            held = Counter(hold.segment for who in place.inside for hold in _holds(place.visitors[who]))
            assert max(held.values(), default=0) <= 1, f"two are in one segment: {held}"

        await play(place, steps, ask, check)
        await asyncio.sleep(2)
        taken = {row.key for row in place.server.inspect("segment", "*") if row.inside}
        waiting = {asked[who] for who in place.waiting}
        assert len(taken) == SEGMENTS or not waiting & {"any", "steal"}, "a segment is unused"


def _twice(client: LockClient, hot: Any) -> Any:
    return client.multi(hot.all(), hot.lock("user-2"))


def _holds(visitor: Any) -> list[Any]:
    return list(getattr(visitor.hold, "holds", [visitor.hold]))


@quick
@given(_program(members))
def test_multi_locks_never_deadlock(steps: list[Step]) -> None:
    """At the end everybody gets through, one after the other."""
    run_virtual(_multi(steps))


@quick
@given(_program(ways))
def test_segments_are_exclusive_and_used(steps: list[Step]) -> None:
    """By user, by any, stealing, and all together."""
    run_virtual(_segments(steps))


# --- broken twins --------------------------------------------------------------------------------------------


def _as_asked(members: list[Any]) -> list[Any]:
    return members


Twin = tuple[str, Callable[..., Any], Callable[..., Coroutine[Any, Any, None]], list[Step]]

TWINS: dict[str, Twin] = {
    "members are taken in the order asked": (
        "aiodlock.locks.multi._in_order",
        _as_asked,
        _multi,
        [("ask", 0, ["c"]), ("ask", 1, ["a", "c", "d"]), ("ask", 2, ["d", "a"]), ("leave", 0, None)],
    ),
    "two permits are two tickets": (
        "aiodlock.locks.multi._in_order",
        _as_asked,
        _multi,
        [("ask", 0, ["b", "b"]), ("ask", 1, ["b", "b"]), ("ask", 2, ["b", "b"]), ("leave", 0, None)],
    ),
    "the losers of a race stay": (
        "aiodlock.locks.race.Race.end",
        lambda self: None,
        _segments,
        [("ask", 0, "all"), ("ask", 1, "any"), ("leave", 0, None), ("ask", 2, "all")],
    ),
    "a race is run by one": (
        "aiodlock.locks.race.Race._stand",
        lambda self, tried: None,
        _segments,
        [("ask", 0, "user-1"), ("ask", 1, "steal")],
    ),
}


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_twin_is_caught(monkeypatch: pytest.MonkeyPatch, twin: str) -> None:
    """By the program that shows it, which is harmless without it."""
    name, broken, run, steps = TWINS[twin]
    run_virtual(run(steps))
    monkeypatch.setattr(name, broken)
    with pytest.raises(AssertionError):
        run_virtual(run(steps))
