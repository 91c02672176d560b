"""What the harness knows of a lock: a few facts, and an adapter that opens it and makes lock objects.

Peer modules are imported by the harness and by every worker, each of which runs in its own environment. So nothing
beyond the standard library is imported at the top of one; the driver comes in by name, in ``open``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

__all__ = ["LEASE", "UNBOUNDED", "Adapter", "Entry", "Peer", "Role", "Runner"]

LEASE = 30  # seconds, the same for everybody
UNBOUNDED = 1 << 31  # connections in a pool: redis-py's cap of 100 raises for waiter 101, in release as well

Entry: TypeAlias = AbstractAsyncContextManager[object]


class Adapter(Protocol):
    """One process's use of one lock library."""

    async def open(self) -> None:
        """Import the driver and connect."""
        ...

    def lock(self, key: str) -> Entry:
        """Return a lock for one task: entered and left any number of times, by that task only."""
        ...


class Runner(Adapter, Protocol):
    """An adapter of a lock that runs plain functions, instead of letting tasks in."""

    async def run(self, key: str, section: Callable[[], None]) -> None: ...


class Role(enum.Enum):
    OURS = "ours"
    RIVAL = "rival"
    LIMIT = "limit"  # a bound, not something to use instead
    CROOKED = "crooked"  # wrong on purpose


@dataclass(frozen=True, slots=True)
class Peer:
    """The facts about one lock. The defaults are those of a lock on Redis."""

    name: str
    adapter: Callable[[str], Adapter]  # called with the URL to use
    note: str = ""
    requires: tuple[str, ...] = ()  # pinned; none: the harness's own environment
    server: str | None = "redis"
    shared: bool = True  # excludes other processes too
    runs: bool = False  # the adapter is a Runner
    only: frozenset[str] | None = None  # the scenarios it can take part in; None: all
    sends: frozenset[str] = frozenset()  # commands the client sends by itself, besides scripts and connection upkeep
    scripts_call: Mapping[str, int] = field(default_factory=dict)  # of those: how many each script call makes as well
    role: Role = Role.RIVAL
