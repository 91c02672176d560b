"""What all connections of a proxy obey, and what they have done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from aiodlock.testing.proxy.rules import Rule

__all__ = ["Controls", "Counts", "Edit", "Lane"]

Edit: TypeAlias = Callable[[], Callable[[bytes], bytes]]
"""Makes for one connection what changes its replies, as they come: in pieces."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the proxy has done since it was started."""

    connections: int = 0
    requests: int = 0  # forwarded
    replies: int = 0  # forwarded
    requests_dropped: int = 0
    replies_dropped: int = 0
    held_back: int = 0
    cut: int = 0  # connections, as the two below
    reset: int = 0
    unreachable: int = 0  # reset because the server did not accept


def _opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class Lane:
    """One direction of all connections."""

    delay: float = 0.0
    open: asyncio.Event = field(default_factory=_opened)


class Controls:
    """Touched on the proxy's loop only, except `counts` and `wait_until`."""

    def __init__(self) -> None:
        self.requests = Lane()
        self.replies = Lane()
        self.rules: list[Rule] = []
        self.edit: Edit | None = None
        self.errors: list[Exception] = []  # of users' matchers
        self.counts = Counts()
        self._counted = threading.Condition()

    def wait_until(self, condition: Callable[[Counts], bool], *, within: float) -> Counts:
        with self._counted:
            if not self._counted.wait_for(lambda: condition(self.counts), within):
                raise TimeoutError(f"not seen within {within:g}s: {self.counts}")
            return self.counts

    def count(self, name: str) -> None:
        with self._counted:
            self.counts = replace(self.counts, **{name: getattr(self.counts, name) + 1})
            self._counted.notify_all()

    def judge(self, request: bytes) -> Rule | None:
        """Return the oldest rule that harms this request; younger ones then do not see it."""
        return next((rule for rule in self.rules if rule.applies(request)), None)
