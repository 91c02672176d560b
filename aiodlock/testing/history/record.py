"""The recorder: what a worker saw, one JSON line each, stamped with one clock for all processes of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from aiodlock.clock import SystemClock

__all__ = ["Event", "Json", "JsonLines", "Recorder", "read"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_now = SystemClock().now


@dataclass(frozen=True, slots=True)
class Event:
    """Something that *who* saw at the instant *at*."""

    at: float
    who: str
    what: str
    facts: Mapping[str, Json]


class Recorder:
    """Stamp events and hand them to *keep*: ``events.append``, or `JsonLines` where a process may be killed.

    The clock is the one a hold's deadline is on. It is one for all processes of a machine; never compare it between
    machines, nor between containers that have a time namespace of their own.
    """

    __slots__ = ("_keep", "now", "who")

    def __init__(self, keep: Callable[[Event], object], *, who: str, now: Callable[[], float] = _now) -> None:
        self._keep = keep
        self.who = who
        self.now = now

    def __call__(self, what: str, /, **facts: Json) -> Event:
        event = Event(self.now(), self.who, what, facts)
        self._keep(event)
        return event


class JsonLines:
    """Append events to a file, each by one write, so that a kill loses nothing that was recorded before it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __call__(self, event: Event) -> None:
        self._file.write(json.dumps(asdict(event)).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[Event]:
    """Return the events of a file, which may still be written to: an unfinished last line is left out."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [Event(**json.loads(line)) for line in whole.splitlines()]
