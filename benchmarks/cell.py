"""One cell: one lock in one scenario, once. Starts its worker processes, has them conducted, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.channel import Channel, Message
from benchmarks.environments import ROOT
from benchmarks.figures import Sample
from benchmarks.guard import Guard
from benchmarks.observer import Calls, Observer, Seen, split
from benchmarks.peers import Peer
from benchmarks.scenarios import Scenario

__all__ = ["Cell", "CellFailedError"]

_GRACE = 60.0  # seconds a cell may take beyond its window: opening, parking, settling
_CALM = 3  # looks in a row without a new connection
_LOOK_EVERY, _LONGEST_SETTLING = 0.1, 10.0


class CellFailedError(RuntimeError):
    """The lock could not be opened, or did not get through; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What to run, and on what."""

    peer: Peer
    scenario: Scenario
    seconds: float
    python: Path
    loop: str = "asyncio"
    url: str | None = None  # None: the peer needs no server
    observer: Observer | None = None

    async def run(self) -> Sample:
        """Return what this round showed."""
        with tempfile.TemporaryDirectory(prefix="aiodlock-bench-") as name:
            folder = Path(name)
            try:
                async with asyncio.timeout(_GRACE + 2 * self.seconds), self._crew(folder) as crew:
                    await crew.hear("open")
                    return await self.scenario.conduct(crew, self.seconds)
            except TimeoutError as error:
                raise CellFailedError(f"not done after {_GRACE + 2 * self.seconds:.0f} s") from error
            except (RuntimeError, OSError) as error:
                raise CellFailedError(_why(error, folder / "log")) from error

    @contextlib.asynccontextmanager
    async def _crew(self, folder: Path) -> AsyncIterator[_Crew]:
        if self.observer is not None:
            self.observer.clean()
        count = self.scenario.processes if self.peer.shared else 1
        if count > 1:
            Guard.lay(folder / "guard", keys=self.scenario.keys)
        hands: list[tuple[Process, Channel]] = []
        try:
            while len(hands) < count:
                hands.append(await self._start(folder, len(hands), count))
            yield _Crew(self.peer, [channel for _, channel in hands], self.observer)
        finally:
            for process, channel in hands:
                channel.close()
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _start(self, folder: Path, number: int, count: int) -> tuple[Process, Channel]:
        ours, theirs = socket.socketpair()
        spec = {
            "peer": self.peer.name,
            "scenario": self.scenario.name,
            "url": self.url or str(folder),
            "process": number,
            "tasks": self.scenario.tasks * self.scenario.processes // count,
            "loop": self.loop,
            "channel": theirs.fileno(),
            "guard": str(folder / "guard") if count > 1 else None,
        }
        with theirs, (folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                self.python,
                "-m",
                "benchmarks.worker",
                json.dumps(spec),
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
            )
        return process, Channel(ours)


class _Crew:
    """See :class:`benchmarks.scenarios.base.Crew`."""

    def __init__(self, peer: Peer, channels: Sequence[Channel], observer: Observer | None) -> None:
        self.peer, self.channels, self._observer = peer, channels, observer

    async def tell(self, word: str, **facts: object) -> None:
        for channel in self.channels:
            await channel.tell(word, **facts)

    async def hear(self, word: str) -> list[Message]:
        return [await channel.hear(word) for channel in self.channels]

    async def settle(self) -> None:
        seen, calm, waited = -1, 0, 0.0
        while self._observer is not None and calm < _CALM and waited < _LONGEST_SETTLING:
            now = self._observer.look().connections
            calm = calm + 1 if now == seen else 0
            seen, waited = now, waited + _LOOK_EVERY
            await asyncio.sleep(_LOOK_EVERY)

    def look(self) -> Seen | None:
        return self._observer.look() if self._observer else None

    def calls(self, before: Seen | None, after: Seen | None) -> Calls | None:
        return split(before, after, self.peer) if before and after else None


def _why(error: Exception, log: Path) -> str:
    said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"{error}" + (f" ({said[-1]})" if said else "")
