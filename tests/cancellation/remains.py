"""What a client may leave behind, and must not."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator

from aiodlock._core.engine import Engine
from aiodlock._core.place import Place

__all__ = ["of_engine", "tasks", "timers"]


def of_engine(engine: Engine, keeps: Collection[str]) -> Iterator[str]:
    """Say what is left in an engine that nobody uses, besides places in lines that are kept on purpose."""

    def unwanted(places: Iterable[Place]) -> list[Place]:
        return [place for place in places if place.ticket.line.kind not in keeps]

    if engine.waiting:
        yield f"waiting is {engine.waiting}"
    for name, things in {
        "places": unwanted(engine.places.values()),
        "leaving": unwanted(engine.leaving),
        "visits": unwanted(place for places in engine.watchdog._slots.values() for place in places),
        "cohorts": [cohort for cohort in engine.cohorts_in_use() if cohort.line.kind not in keeps],
        "owners": [task for line, owners in engine._owners.items() if line.kind not in keeps for task in owners],
        "latches": engine.latches._watched,
        "work": engine.work._work,
    }.items():
        if things:
            yield f"{name} left: {things}"


def tasks() -> list[str]:
    """Return every task but the one that asks."""
    return [f"task: {task!r}" for task in asyncio.all_tasks() - {asyncio.current_task()}]


def timers(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return the timers that are armed, where the loop shows them."""
    return [f"timer: {timer!r}" for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
