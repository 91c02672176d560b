"""The linearizability search: against brute force, against simulated servers, and within its budget."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiodlock.testing.history import UNKNOWN, Counter, Model, Operation, Stock, TryLock, check_linearizable


@dataclass(frozen=True)
class Register:
    """A model that is not ours: writing what is there already changes nothing now, and may change something later."""

    def first(self) -> int:
        return 0

    def step(self, state: int, operation: Operation) -> tuple[int, ...]:
        if operation.name == "write":
            assert isinstance(operation.argument, int)
            return (operation.argument,)
        return (state,) if operation.result in (UNKNOWN, state) else ()


@dataclass(frozen=True)
class Coin:
    """A model with a choice: tossing leaves heads or tails, and does not say which."""

    def first(self) -> str:
        return "heads"

    def step(self, state: str, operation: Operation) -> tuple[str, ...]:
        if operation.name == "toss":
            return ("heads", "tails")
        return (state,) if operation.result in (UNKNOWN, state) else ()


KINDS: dict[str, tuple[Model[Any], Sequence[tuple[str, Hashable, Sequence[Hashable]]]]] = {
    "lock": (TryLock(), [(verb, owner, [True, False]) for verb in ("acquire", "release") for owner in "ab"]),
    "counter": (Counter(), [("add", 1, range(4)), ("add", 2, range(4)), ("read", None, range(4))]),
    "stock": (
        Stock(2),
        [
            ("take", 1, [True, False]),
            ("take", 2, [True, False]),
            ("put_back", 1, [None]),
            ("remaining", None, range(4)),
        ],
    ),
    "register": (Register(), [("write", 1, [None]), ("write", 2, [None]), ("read", None, range(3))]),
    "coin": (Coin(), [("toss", None, [None]), ("look", None, ["heads", "tails"])]),
}


@st.composite
def histories(draw: st.DrawFn, kind: str, *, most: int = 5) -> list[Operation]:
    """Draw calls with any answers at any times: most such histories are wrong, and some are right."""
    made = []
    for _ in range(draw(st.integers(0, most))):
        name, argument, results = draw(st.sampled_from(list(KINDS[kind][1])))
        called = draw(st.integers(0, 8))
        if draw(st.integers(0, 4)) == 0:
            made.append(Operation("k", "w", name, called, argument))
        else:
            result, returned = draw(st.sampled_from(list(results))), called + draw(st.integers(0, 5))
            made.append(Operation("k", "w", name, called, argument, result, returned))
    return made


def fits_some_order(history: list[Operation], model: Model[Any]) -> bool:
    """Try every order of every choice of unknown calls, one by one."""
    known = [call for call in history if call.known]
    unknown = [call for call in history if not call.known]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            if any(_fits(order, model) for order in itertools.permutations([*known, *chosen])):
                return True
    return False


def _fits(order: Sequence[Operation], model: Model[Any]) -> bool:
    if any(later.returned < earlier.called for earlier, later in itertools.combinations(order, 2)):
        return False
    states = {model.first()}
    for call in order:
        states = {after for state in states for after in model.step(state, call)}
    return bool(states)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(data=st.data())
def test_the_search_finds_what_trying_every_order_finds(kind: str, data: st.DataObject) -> None:
    history = data.draw(histories(kind))
    model = KINDS[kind][0]
    assert (check_linearizable(history, model=model) == []) == fits_some_order(history, model)


# --- simulated servers -------------------------------------------------------------------------------------


def serve(
    model: Model[Any], seed: int, *, calls: int, workers: int, wishes: Sequence[tuple[str, Hashable]], lost: float
) -> list[Operation]:
    """Let workers call a server that takes each call at one instant between its sending and its answer."""
    dice = random.Random(seed)
    free, sent = [0.0] * workers, []
    for _ in range(calls):
        worker = free.index(min(free))
        called = free[worker] + dice.random()
        done, returned = sorted((called + 3 * dice.random(), called + 3 * dice.random()))
        free[worker] = returned
        sent.append((done, called, returned, f"w-{worker}", *dice.choice(wishes)))
    state, history = model.first(), []
    for _, called, returned, who, name, argument in sorted(sent):
        (state,), result = _answer(model, state, name, argument)
        known = dice.random() >= lost
        history.append(
            Operation("k", who, name, called, argument, result if known else UNKNOWN, returned if known else math.inf)
        )
    return history


def _answer(model: Model[Any], state: Hashable, name: str, argument: Hashable) -> tuple[tuple[Hashable, ...], Hashable]:
    """Ask the model for the one answer it accepts."""
    after = model.step(state, Operation("k", "", name, 0.0, argument))
    for result in (True, False, None, after[0]):
        if model.step(state, Operation("k", "", name, 0.0, argument, result)):
            return after, result
    raise AssertionError(f"{model} has no answer to {name}")


SERVERS: dict[str, tuple[Model[Any], Sequence[tuple[str, Hashable]]]] = {
    "lock": (TryLock(), [("acquire", "a"), ("release", "a"), ("acquire", "b"), ("release", "b")]),
    "counter": (Counter(10), [("add", 5), ("add", -7), ("read", None)]),
    "stock": (Stock(100), [("take", 1), ("take", 3), ("put_back", 1), ("remaining", None)]),
}


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("lost", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(3))
def test_histories_of_a_correct_server_pass(kind: str, lost: float, seed: int) -> None:
    """Five hundred calls of four workers, with and without lost answers."""
    model, wishes = SERVERS[kind]
    history = serve(model, seed, calls=500, workers=4, wishes=wishes, lost=lost)
    assert len(history) == 500
    assert check_linearizable(history, model=model) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_sale_out_of_nothing_is_caught(seed: int) -> None:
    """One more accepted than loaded: the twin that reads, thinks, and then writes."""
    history = serve(Stock(100), seed, calls=400, workers=8, wishes=[("take", 1)], lost=0.0)
    refused = next(i for i, call in enumerate(history) if call.result is False)
    history[refused] = replace(history[refused], result=True)
    (violation,) = check_linearizable(history, model=Stock(100))
    assert violation.rule == "linearizability"
    assert any(isinstance(call, Operation) and call.name == "take" for call in violation.evidence)


def test_a_counter_that_counts_a_repeated_call_twice_is_caught() -> None:
    """The driver re-sent it after a lost reply and told the second answer."""
    calls = [Operation("k", "a", "add", 0, 1, 1, 1), Operation("k", "a", "add", 2, 1, 3, 3)]
    assert [violation.rule for violation in check_linearizable(calls, model=Counter())] == ["linearizability"]
    explained = [*calls, Operation("k", "b", "add", 0, 1)]
    assert check_linearizable(explained, model=Counter()) == []


def test_an_unknown_call_happens_after_it_was_sent_or_never() -> None:
    read = Operation("k", "b", "read", 0, None, 1, 1)
    assert check_linearizable([read, Operation("k", "a", "add", 0.5, 1)], model=Counter()) == []
    assert len(check_linearizable([read, Operation("k", "a", "add", 2, 1)], model=Counter())) == 1
    assert check_linearizable([replace(read, result=0), Operation("k", "a", "add", 0.5, 1)], model=Counter()) == []


def test_real_time_is_respected() -> None:
    stale = [Operation("k", "a", "add", 0, 1, 1, 1), Operation("k", "b", "read", 2, None, 0, 3)]
    assert len(check_linearizable(stale, model=Counter())) == 1
    overlapping = [stale[0], replace(stale[1], called=0.5)]
    assert check_linearizable(overlapping, model=Counter()) == []


def test_each_key_is_an_object_of_its_own() -> None:
    calls = [Operation(key, "a", "acquire", 0, key, True, 1) for key in ("x", "y")]
    assert check_linearizable(calls, model=TryLock()) == []
    assert len(check_linearizable([replace(call, key="x") for call in calls], model=TryLock())) == 1


def test_many_unknown_calls_that_look_the_same_stay_cheap() -> None:
    """Two to the power of sixty choices, if they were told apart."""
    unknown = [Operation("k", f"w-{i}", "take", i, 1) for i in range(60)]
    known = [Operation("k", "r", "remaining", 100 + i, None, 100 - i, 100.5 + i) for i in range(60)]
    assert check_linearizable([*unknown, *known], model=Stock(100), budget=1000) == []
    impossible = Operation("k", "r", "remaining", 200, None, 39, 201)
    (violation,) = check_linearizable([*unknown, *known, impossible], model=Stock(100), budget=10_000)
    assert violation.rule == "linearizability"


def test_a_search_that_gives_up_is_a_failure() -> None:
    """Unknown calls that all differ: an answer may exist, but nobody has found it."""
    unknown = [Operation("k", "w", "add", 0, 1 << i) for i in range(30)]
    history = [*unknown, Operation("k", "r", "read", 1, None, -1, 2)]
    (violation,) = check_linearizable(history, model=Counter(), budget=500)
    assert violation.rule == "linearizability unknown"


@pytest.mark.parametrize("model", [TryLock(), Counter(), Stock(1)])
def test_a_misspelt_operation_is_an_error_not_a_verdict(model: Model[Any]) -> None:
    with pytest.raises(ValueError, match="aquire"):
        check_linearizable([Operation("k", "a", "aquire", 0, "a", True, 1)], model=model)


def test_five_thousand_calls_are_searched_without_recursion() -> None:
    history = serve(Stock(1500), 1, calls=5000, workers=8, wishes=[("take", 1), ("put_back", 1)], lost=0.01)
    assert check_linearizable(history, model=Stock(1500)) == []


def test_an_empty_history_is_correct() -> None:
    assert check_linearizable([], model=Counter()) == []
    assert check_linearizable([Operation("k", "a", "add", 0, 1)], model=Counter()) == []
