"""Linearizability: all operations fit one order that respects real time and that a sequential model agrees with.

The search of Wing and Gong with Lowe's memo of what was tried, each key for itself. An operation whose outcome is
unknown returns at infinity and may be left out. The search stays small because operations that change nothing are
tried first, and of those that look the same only one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple

from aiodlock.testing.history.models import Model, State
from aiodlock.testing.history.operations import Operation
from aiodlock.testing.history.violation import Violation

__all__ = ["check_linearizable"]


def check_linearizable(history: Iterable[Operation], *, model: Model[State], budget: int = 200_000) -> list[Violation]:
    """Search an order for the operations of each key.

    A search that has tried *budget* places has not shown anything, and that is a violation too.
    """
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        by_key[operation.key].append(operation)
    found = (_Search(of_key, model).run(key, budget) for key, of_key in by_key.items())
    return [violation for violation in found if violation is not None]


class _Place(NamedTuple, Generic[State]):
    """How far an order has come."""

    first: int  # all known operations before this one are in
    later: int  # bit i: the known operation first + i is in as well
    used: tuple[int, ...]  # how many of each group of like unknown ones are in
    state: State


class _Search(Generic[State]):
    def __init__(self, history: list[Operation], model: Model[State]) -> None:
        ordered = sorted(history, key=lambda operation: operation.called)
        self._known = [operation for operation in ordered if operation.known]
        alike: defaultdict[Hashable, list[Operation]] = defaultdict(list)
        for operation in ordered:
            if not operation.known:
                alike[operation.name, operation.argument].append(operation)
        self._unknown = list(alike.values())
        self._model = model

    def run(self, key: str, budget: int) -> Violation | None:
        """Search depth first with a stack of our own: a history is longer than Python's recursion is deep."""
        if not self._known:
            return None
        deepest = _Place(0, 0, (0,) * len(self._unknown), self._model.first())
        tried, stack = {deepest}, [self._next(deepest)]
        while stack:
            place = next((place for place in stack[-1] if place not in tried), None)
            if place is None:
                stack.pop()
                continue
            if place.first == len(self._known):
                return None
            if len(tried) == budget:
                return Violation("linearizability unknown", f"{key!r}: gave up after {budget} places")
            tried.add(place)
            stack.append(self._next(place))
            deepest = max(deepest, place, key=_depth)
        return self._stuck(key, deepest)

    def _next(self, place: _Place[State]) -> Iterator[_Place[State]]:
        """Return where one more operation leads to."""
        ready, horizon = self._ready(place)
        indexes = self._without_alike(ready)
        steps = [(index, state) for index in indexes for state in self._model.step(place.state, self._known[index])]
        for index, state in sorted(steps, key=lambda step: step[1] != place.state):
            yield self._with_known(place, index, state)
        for group, alike in enumerate(self._unknown):
            used = place.used[group]
            if used < len(alike) and alike[used].called <= horizon:
                yield from self._with_unknown(place, group, self._model.step(place.state, alike[used]))

    def _ready(self, place: _Place[State]) -> tuple[list[int], float]:
        """Return the known operations that may come next, and when the first of all that are not in yet returned."""
        indexes, horizon, rest = [], math.inf, ~place.later
        while (index := place.first + (rest & -rest).bit_length() - 1) < len(self._known):
            if self._known[index].called > horizon:
                break
            horizon = min(horizon, self._known[index].returned)
            indexes.append(index)
            rest &= rest - 1
        return indexes, horizon

    def _without_alike(self, indexes: list[int]) -> Iterable[int]:
        """Return of those that look the same the one that returned first: in any order that works, it can go first."""
        first: dict[Hashable, int] = {}
        for index in sorted(indexes, key=lambda index: self._known[index].returned):
            one = self._known[index]
            first.setdefault((one.name, one.argument, one.result), index)
        return first.values()

    def _with_known(self, place: _Place[State], index: int, state: State) -> _Place[State]:
        first, later = place.first, place.later | 1 << index - place.first
        done = (~later & later + 1).bit_length() - 1  # how many ones the number ends in
        return _Place(first + done, later >> done, place.used, state)

    def _with_unknown(self, place: _Place[State], group: int, states: Iterable[State]) -> Iterator[_Place[State]]:
        used = (*place.used[:group], place.used[group] + 1, *place.used[group + 1 :])
        yield from (place._replace(used=used, state=state) for state in states if state != place.state)

    def _stuck(self, key: str, place: _Place[State]) -> Violation:
        stuck = tuple(self._known[index] for index in self._ready(place)[0])
        text = f"{key!r}: {_depth(place)} of {len(self._known)} in, then none fits the state {place.state!r}"
        return Violation("linearizability", text, stuck)


def _depth(place: _Place[State]) -> int:
    return place.first + place.later.bit_count()
