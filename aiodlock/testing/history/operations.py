"""Operations: what was asked of an object and what it answered, for the linearizability search.

A worker records::

    with operation(record, "k", "take", 1) as outcome:
        outcome.result = await stock.take(...)

If the block raises, the outcome is unknown: the operation may have happened, may happen later, or never.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

from aiodlock.testing.history.record import Event, Json, Recorder

__all__ = ["UNKNOWN", "Operation", "Outcome", "operation", "operations"]


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: *result* is `UNKNOWN` and *returned* infinite when nobody knows how it ended."""

    key: str
    who: str
    name: str
    called: float
    argument: Hashable = None
    result: Hashable = UNKNOWN
    returned: float = math.inf

    @property
    def known(self) -> bool:
        return self.result is not UNKNOWN


@dataclass(slots=True)
class Outcome:
    """Of an operation under way; its block sets the result."""

    result: Json = None


_ids = itertools.count()


@contextmanager
def operation(record: Recorder, key: str, name: str, argument: Json = None) -> Iterator[Outcome]:
    """Record an operation before its block, and its result after it unless the block raises."""
    outcome, number = Outcome(), next(_ids)
    record("called", id=number, key=key, name=name, argument=argument)
    yield outcome
    record("returned", id=number, result=outcome.result)


def operations(events: Iterable[Event]) -> list[Operation]:
    """Return all operations in the events of any number of workers; one that never returned has an unknown outcome."""
    events = list(events)
    results = {(event.who, event.facts["id"]): event for event in events if event.what == "returned"}
    return [_paired(event, results.get((event.who, event.facts["id"]))) for event in events if event.what == "called"]


def _paired(called: Event, returned: Event | None) -> Operation:
    key, name = cast(str, called.facts["key"]), cast(str, called.facts["name"])
    argument = _frozen(called.facts["argument"])
    if returned is None:
        return Operation(key, called.who, name, called.at, argument)
    return Operation(key, called.who, name, called.at, argument, _frozen(returned.facts["result"]), returned.at)


def _frozen(value: Json) -> Hashable:
    match value:
        case list():
            return tuple(_frozen(item) for item in value)
        case dict():
            return tuple((name, _frozen(item)) for name, item in sorted(value.items()))
        case _:
            return value
