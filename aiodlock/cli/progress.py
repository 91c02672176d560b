"""How far a sale is: bars that move on a terminal, a line now and then without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from rich import progress
from rich.console import Console

__all__ = ["Progress", "progress_on", "shown"]

_T = TypeVar("_T")


class Progress(Protocol):
    """Where a run is shown."""

    every: float  # seconds between two looks

    def begin(self, name: str) -> None:
        """Go on to the run *name*."""
        ...

    def show(self, done: int) -> None:
        """Say how far it is."""
        ...


class _Bars:
    every = 0.1

    def __init__(self, bars: progress.Progress, total: int) -> None:
        self._bars = bars
        self._total = total
        self._bar = progress.TaskID(0)

    def begin(self, name: str) -> None:
        self._bar = self._bars.add_task(name, total=self._total)

    def show(self, done: int) -> None:
        self._bars.update(self._bar, completed=done, refresh=True)


class _Lines:
    every = 5.0

    def __init__(self, out: Console, total: int) -> None:
        self._out = out
        self._total = total
        self._name = ""

    def begin(self, name: str) -> None:
        self._name = name

    def show(self, done: int) -> None:
        self._out.print(f"{self._name}: {done:,} of {self._total:,} buyers served")


@contextmanager
def progress_on(out: Console, *, total: int) -> Iterator[Progress]:
    """Show runs of *total* buyers each on *out*."""
    if not out.is_terminal:
        yield _Lines(out, total)
        return
    columns = (
        progress.TextColumn("{task.description:<12}"),
        progress.BarColumn(40),
        progress.MofNCompleteColumn(),
        progress.TextColumn("buyers"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=out, auto_refresh=False) as bars:
        yield _Bars(bars, total)


async def shown(work: Coroutine[Any, Any, _T], progress: Progress, *, name: str, done: Callable[[], int]) -> _T:
    """Return what comes of *work*, and show meanwhile how much of it is *done*.

    Cancellation: the work is cancelled, and has ended.
    """
    progress.begin(name)
    working = asyncio.create_task(work)
    try:
        while not (await asyncio.wait((working,), timeout=progress.every))[0]:
            progress.show(done())
        result = working.result()
    finally:
        working.cancel()
        await asyncio.wait((working,))
    progress.show(done())
    return result
