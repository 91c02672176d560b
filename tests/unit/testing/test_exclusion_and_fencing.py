"""The sweep and the fencing order: correct histories pass, every broken twin is caught."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aiodlock.testing.history import (
    Event,
    Json,
    Recorder,
    Stay,
    Violation,
    check_accepted,
    check_exclusion,
    check_fencing,
    stays,
)

WRITER = 1 << 30
quick = settings(max_examples=30)


def stay(
    start: float, end: float, *, who: str = "a", asked: float | None = None, weight: int = 1, fence: int = 0
) -> Stay:
    asked = start if asked is None else asked
    return Stay(key="k", id=fence, who=who, asked=asked, start=start, end=end, weight=weight, fence=fence)


def rules(violations: list[Violation]) -> set[str]:
    return {violation.rule for violation in violations}


# --- a simulated server ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """One visit: how long after the last caller, how slow the wire, how long inside, and whether it dies there."""

    gap: int
    lag: int
    inside: int
    weight: int
    dies: bool


def plans(weights: st.SearchStrategy[int], *, at_least: int = 0) -> st.SearchStrategy[list[Plan]]:
    short = st.integers(1, 12)
    return st.lists(st.builds(Plan, short, short, short, weights, st.booleans()), min_size=at_least, max_size=12)


def simulate(visits: list[Plan], *, size: int, ttl: int = 10) -> list[Event]:
    """Let a server with one clock admit them in order; return what the workers record."""
    events: list[Event] = []
    on_server: list[tuple[int, int]] = []  # until when, which weight
    asked = granted = 0
    for number, plan in enumerate(visits):
        asked += plan.gap
        granted = max(granted, asked + 1)
        while sum(weight for until, weight in on_server if until > granted) + plan.weight > size:
            granted = min(until for until, _ in on_server if until > granted)
        read, left = granted + plan.lag, granted + plan.lag + plan.inside
        on_server.append((granted + ttl if plan.dies else min(left + plan.lag, granted + ttl), plan.weight))
        facts: dict[str, Json] = {"key": "k", "id": number}
        entered: dict[str, Json] = {
            "asked": asked,
            "valid_until": granted + ttl - 1,
            "weight": plan.weight,
            "fence": number + 1,
        }
        events.append(Event(read, f"w-{number % 4}", "inside", facts | entered))
        if not plan.dies:
            events.append(Event(left, f"w-{number % 4}", "left", facts))
    return events


@pytest.mark.parametrize(("size", "weights"), [(1, [1]), (3, [1, 2, 3]), (WRITER, [1, 1, WRITER])])
@quick
@given(data=st.data())
def test_histories_of_a_correct_server_pass(size: int, weights: list[int], data: st.DataObject) -> None:
    """Lock, semaphore and read-write lock, with slow wires, expired leases and deaths inside."""
    history = stays(simulate(data.draw(plans(st.sampled_from(weights))), size=size))
    assert check_exclusion(history, size=size) == []
    assert check_fencing(history, size=size) == []


@quick
@given(visits=plans(st.just(1), at_least=2), data=st.data())
def test_believing_past_the_lease_is_caught(visits: list[Plan], data: st.DataObject) -> None:
    """The naive holder goes on until its release, which comes after the next one has entered."""
    history = [each for each in stays(simulate(visits, size=1)) if each.believed]
    assume(len(history) > 1)
    victim = data.draw(st.integers(0, len(history) - 2))
    history[victim] = replace(history[victim], end=history[victim + 1].start + 1)
    (first, *_) = check_exclusion(history)
    assert first.evidence == (history[victim], history[victim + 1])


@quick
@given(visits=plans(st.just(1), at_least=2), data=st.data())
def test_two_fences_exchanged_are_caught(visits: list[Plan], data: st.DataObject) -> None:
    history = [each for each in stays(simulate(visits, size=1)) if each.believed]
    assume(len(history) > 1)
    i, j = sorted(data.draw(st.permutations(range(len(history))))[:2])
    a, b = history[i], history[j]
    history[i], history[j] = replace(a, fence=b.fence), replace(b, fence=a.fence)
    assert "fence not growing" in rules(check_fencing(history))


@quick
@given(visits=plans(st.just(1), at_least=2), data=st.data())
def test_a_fence_given_out_twice_is_caught(visits: list[Plan], data: st.DataObject) -> None:
    history = stays(simulate(visits, size=1))
    i, j = data.draw(st.permutations(range(len(history))))[:2]
    history[i] = replace(history[i], fence=history[j].fence)
    assert "fence not unique" in rules(check_fencing(history))


# --- the same by brute force -------------------------------------------------------------------------------

instants = st.integers(0, 12)
anything = st.lists(
    st.builds(
        lambda asked, lag, length, weight, fence: stay(
            asked + lag, asked + lag + length, asked=asked, weight=weight, fence=fence, who=f"w-{fence}"
        ),
        instants,
        st.integers(0, 3),
        st.integers(-1, 6),
        st.sampled_from([1, 2, 3]),
        st.integers(1, 8),
    ),
    max_size=8,
)


@quick
@given(history=anything, size=st.integers(1, 4))
def test_the_sweep_finds_what_looking_at_every_instant_finds(history: list[Stay], size: int) -> None:
    overfull = any(
        sum(each.weight for each in history if each.start <= instant < each.end) > size for instant in range(-1, 25)
    )
    assert bool(check_exclusion(history, size=size)) == overfull


@quick
@given(history=anything, size=st.integers(1, 4))
def test_the_fencing_order_finds_what_looking_at_every_pair_finds(history: list[Stay], size: int) -> None:
    pairs = [pair for pair in itertools.permutations(history, 2) if pair[0].weight + pair[1].weight > size]
    expected = set()
    for earlier, later in pairs:
        assert earlier.fence is not None
        assert later.fence is not None
        if earlier.fence > later.fence and earlier.start < later.asked:
            expected.add("fence inverted")
        if earlier.fence > later.fence and earlier.start < later.start and earlier.believed and later.believed:
            expected.add("fence not growing")
    assert rules(check_fencing(history, size=size)) - {"fence not unique"} == expected


# --- by hand -----------------------------------------------------------------------------------------------


def test_readers_share_and_a_writer_excludes_them() -> None:
    readers = [stay(0, 10, who="r1", fence=1), stay(2, 8, who="r2", fence=2)]
    assert check_exclusion(readers, size=WRITER) == []
    (violation,) = check_exclusion([*readers, stay(9, 12, who="w", weight=WRITER, fence=3)], size=WRITER)
    assert "r1, w" in str(violation)


def test_entering_at_the_instant_of_leaving_is_no_overlap() -> None:
    assert check_exclusion([stay(0, 5), stay(5, 9)]) == []


def test_keys_do_not_disturb_each_other() -> None:
    other = replace(stay(0, 10, who="b"), key="other")
    assert check_exclusion([stay(0, 10), other]) == []
    assert check_fencing([stay(0, 10), other]) == []


def test_a_semaphore_counts_permits() -> None:
    three = [stay(0, 10, who="a", weight=2, fence=1), stay(1, 5, who="b", fence=2)]
    assert check_exclusion(three, size=3) == []
    assert len(check_exclusion([*three, stay(4, 6, who="c", fence=3)], size=3)) == 1


def test_a_missing_fence_is_a_violation() -> None:
    assert rules(check_fencing([replace(stay(0, 1), fence=None)])) == {"fence missing"}


def test_a_late_answer_with_an_older_fence_is_caught_though_nobody_believed_it() -> None:
    """Asked for when the larger fence had been given out: the server went back."""
    assert rules(check_fencing([stay(0, 5, fence=9), stay(7, 6, asked=3, who="b", fence=8)])) == {"fence inverted"}


def test_a_downgrade_keeps_its_fence() -> None:
    events: list[Event] = []
    record = Recorder(events.append, who="w")
    for weight in (WRITER, 1):
        record("inside", key="k", id=1, asked=0.0, valid_until=record.now() + 9, weight=weight, fence=5)
    assert check_fencing(stays(events), size=WRITER) == []


def test_readers_need_no_order_among_them_but_with_writers() -> None:
    """A local hand-off under an older epoch is no harm to readers that are inside together."""
    readers = [stay(0, 9, fence=20), stay(3, 9, who="b", fence=10)]
    assert check_fencing(readers, size=WRITER) == []
    writer = stay(10, 12, who="w", weight=WRITER, fence=15)
    assert rules(check_fencing([*readers, writer], size=WRITER)) == {"fence not growing", "fence inverted"}


@quick
@given(st.lists(st.integers(1, 50)))
def test_a_guarded_resource_never_goes_back(fences: list[int]) -> None:
    assert check_accepted(sorted(fences)) == []
    assert bool(check_accepted(fences)) == (fences != sorted(fences))


def test_a_stale_write_is_named() -> None:
    (violation,) = check_accepted([3, 3, 7, 5, 7])
    assert str(violation) == "stale write: entry 3: fence 5 after 7"
