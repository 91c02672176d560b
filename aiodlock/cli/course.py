"""The course of a sale: what was sold and what was left at each look, how long buyers waited, who was killed when."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Course", "Diary", "Look", "Mark", "Waits", "bin_of"]

_MOST_LOOKS = 200
_SHORTEST = 0.0001  # seconds: the first bin ends here, each further one at twice the last
_LAST_BIN = 23  # fourteen minutes


@dataclass(frozen=True, slots=True)
class Look:
    """What was so `at` seconds after the opening: how many were sold and are rows, and what each segment had left."""

    at: float
    sold: int
    rows: int
    left: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was done to the sale."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Waits:
    """How many waited less than `below` seconds, and not less than the bin before says."""

    below: float
    count: int


@dataclass(frozen=True, slots=True)
class Course:
    """One sale, from the opening to its end."""

    looks: tuple[Look, ...]
    waits: tuple[Waits, ...]
    marks: tuple[Mark, ...]


def bin_of(seconds: float) -> int:
    """Return the number of the bin that a wait falls into."""
    return 0 if seconds < _SHORTEST else min(_LAST_BIN, math.floor(math.log2(seconds / _SHORTEST)) + 1)


class Diary:
    """Writes a course down. Of a long sale it keeps every second look, then every fourth, and so on: it stays small."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._looks: list[Look] = []
        self._last: Look | None = None
        self._seen = 0
        self._every = 1
        self._waits: Counter[int] = Counter()
        self._marks: list[Mark] = []

    def look(self, sold: int, left: Sequence[int], *, rows: int = 0) -> None:
        """Note how things are now."""
        self._last = Look(self._now(), sold, rows, tuple(left))
        if self._seen % self._every == 0:
            self._looks.append(self._last)
        self._seen += 1
        if len(self._looks) > _MOST_LOOKS:
            self._looks = self._looks[::2]
            self._every *= 2

    def waited(self, counts: Mapping[int, int]) -> None:
        """Note how many waited, by bin."""
        self._waits.update(counts)

    def mark(self, what: str) -> None:
        """Note that *what* was done now."""
        self._marks.append(Mark(self._now(), what))

    def course(self) -> Course:
        """Return all of it, with the last look in any case."""
        looks = self._looks
        if self._last is not None and looks[-1] is not self._last:
            looks = [*looks, self._last]
        bins = range(min(self._waits, default=0), max(self._waits, default=-1) + 1)
        waits = tuple(Waits(_SHORTEST * 2**number, self._waits[number]) for number in bins)
        return Course(tuple(looks), waits, tuple(self._marks))

    def _now(self) -> float:
        return time.perf_counter() - self._began
