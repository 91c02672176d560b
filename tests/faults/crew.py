"""A crew: worker processes that contend for one key, and the history of what all of them saw."""

from __future__ import annotations

import math
import secrets
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from aiodlock.testing.history import Event, Json, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from tests.faults.visits import KINDS

__all__ = ["Crew", "judge", "naively"]

_STARTED, _AT_WORK, _DONE = 30.0, 15.0, 15.0  # seconds within which a busy machine manages it


class Crew:
    """Workers that run *function* of `tests.faults.workers` until told to stop, each by a URL of its own."""

    def __init__(self, function: str, urls: Sequence[str], *, twin: str = "", **arguments: Json) -> None:
        self.key = f"crew-{secrets.token_hex(4)}"
        self.workers: list[Worker] = []
        self._function = function
        self._urls = urls
        self._arguments = {"twin": twin, "key": self.key, **arguments}
        self._stack = ExitStack()
        self._stop = Path()

    def __enter__(self) -> Self:
        directory = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="crew-"))
        self._stop = Path(directory) / "stop"
        for url in self._urls:
            self.join(url)
        for worker in self.workers:
            worker.await_event("connected", within=_STARTED)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(self, url: str) -> Worker:
        """Start one more worker."""
        function, who = f"tests.faults.workers:{self._function}", f"worker-{len(self.workers)}"
        worker = Worker(function, who=who, url=url, stop=str(self._stop), **self._arguments)
        self.workers.append(self._stack.enter_context(worker))
        return worker

    def await_more(self, count: int, what: str = "inside", *, within: float = _AT_WORK) -> None:
        """Return when each living worker has recorded *count* more events of that name."""
        wanted = {worker: _count(worker, what) + count for worker in self.workers if worker.running}
        for worker, number in wanted.items():
            worker.await_event(what, within=within, count=number)

    def finish(self) -> list[Event]:
        """Tell them to stop, and return the events of all when they have, also of those who died."""
        self._stop.touch()
        for worker in self.workers:
            if worker.running:
                worker.join(within=_DONE)
        return self.events

    @property
    def events(self) -> list[Event]:
        return [event for worker in self.workers for event in worker.events()]


def judge(events: Iterable[Event], *, kind: str = "lock") -> list[str]:
    """Return what is wrong with a history: two inside, a fence that goes back, something that a client has kept."""
    events, size = list(events), KINDS[kind].size
    history = stays(events)
    kept = [f"{event.who} kept {event.facts['left']}" for event in events if event.facts.get("left")]
    found = [*check_exclusion(history, size=size), *check_fencing(history, size=size)]
    return [*map(str, found), *kept]


def naively(event: Event) -> Event:
    """Believe in a lock until one has released it."""
    return replace(event, facts={**event.facts, "valid_until": math.inf}) if "valid_until" in event.facts else event


def _count(worker: Worker, what: str) -> int:
    return sum(event.what == what for event in worker.events())
