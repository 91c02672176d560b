"""A scenario has two halves that read as one story: what the workers do, and how the harness conducts them."""

from __future__ import annotations

import abc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.channel import Channel, Message
from benchmarks.figures import Sample
from benchmarks.guard import Guard
from benchmarks.observer import Calls, Seen
from benchmarks.peers.base import Peer

__all__ = ["Crew", "Scenario", "Station", "clock"]

clock = time.perf_counter  # the same clock in all processes of a machine, so their readings can be subtracted


@dataclass(frozen=True, slots=True)
class Station:
    """Where one worker process stands."""

    peer: Peer
    adapter: Any  # an Adapter, or a Runner if the peer runs functions
    channel: Channel
    process: int
    tasks: int
    guard: Guard


class Crew(Protocol):
    """The worker processes of one cell, as the harness sees them."""

    @property
    def peer(self) -> Peer: ...

    @property
    def channels(self) -> Sequence[Channel]: ...

    async def tell(self, word: str, **facts: object) -> None:
        """Say it to all of them."""
        ...

    async def hear(self, word: str) -> list[Message]:
        """Wait until all of them said it."""
        ...

    async def settle(self) -> None:
        """Wait until no new connection comes to the server: a thousand of them take seconds."""
        ...

    def look(self) -> Seen | None:
        """Look at the server, if there is one."""
        ...

    def calls(self, before: Seen | None, after: Seen | None) -> Calls | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(abc.ABC):
    """One question, asked of every lock in the same way."""

    name: str
    question: str
    unit: str = "sections/s"
    processes: int = 1
    tasks: int = 1  # in each process
    keys: int = 1
    seconds: float = 2.0  # the window
    rival_seconds: float | None = None  # for locks that need seconds to get going; a short window would understate them
    limit: str | None = None  # the peer, or the limit, that bounds it
    more_is_better: bool = True
    compares: bool = True  # ratios say something
    shared: bool = False  # makes no sense for a lock of one process

    def suits(self, peer: Peer) -> bool:
        return (peer.only is None or self.name in peer.only) and (peer.shared or not self.shared)

    @abc.abstractmethod
    async def work(self, station: Station) -> None:
        """Do one worker process's part."""

    @abc.abstractmethod
    async def conduct(self, crew: Crew, seconds: float) -> Sample:
        """Lead the workers through it and put their reports together."""
