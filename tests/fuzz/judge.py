"""The judge: what must be true of a history, and of what is left when everybody has gone."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable
from dataclasses import replace

from aiodlock._core.engine import Engine
from aiodlock._core.fence import split
from aiodlock.testing.history import Stay, Violation, check_accepted, check_exclusion, check_fencing, stays
from tests.fuzz.witness import Witness


def judge_history(witness: Witness) -> list[Violation]:
    """Return where somebody was inside who had not been promised it, or a fence went back."""
    kept = list(_as_promised(witness))
    found = [*witness.violations]
    for line, size in witness.sizes.items():
        of_line = [stay for stay in kept if stay.key == line]
        found += check_exclusion(of_line, size=size)
        found += check_fencing(of_line, size=size)
        found += _check_runs(of_line, _runs_as_promised(witness, line), size)
    for log in witness.accepted.values():
        found += check_accepted(log)
    return found


def _as_promised(witness: Witness) -> Iterable[Stay]:
    """Yield the stays, each until the server broke its word: nothing is promised to a hold that it ended or forgot."""
    for stay in stays(witness.events):
        broken = witness.broken.get((stay.key, split(stay.fence or 0)[0]))
        if broken is None:
            yield stay
        elif stay.start < broken:
            yield replace(stay, end=min(stay.end, broken))


def _runs_as_promised(witness: Witness, line: str) -> list[float]:
    """Return when functions ran, until the server broke its word: they do not know their fence."""
    broken = min((since for (name, _), since in witness.broken.items() if name == line), default=math.inf)
    return [at for name, at in witness.ran if name == line and at < broken]


def _check_runs(history: list[Stay], ran: list[float], size: int) -> Iterable[Violation]:
    """Find functions that ran while somebody was inside who leaves no room for anybody else."""
    for at in ran:
        for stay in history:
            if stay.start < at < stay.end and stay.weight == size:
                yield Violation("exclusion", f"a function ran in {stay.key} at {at:.6f} beside {stay.who}", (stay,))


def judge_client(engine: Engine) -> list[str]:
    """Return what a client still keeps though none of its tasks wants anything."""
    if found := _kept_by(engine):
        gc.collect()  # a hold that was lost before its block began is referred to by its cohort alone
        found = _kept_by(engine)
    return found


def _kept_by(engine: Engine) -> list[str]:
    books = {
        "places": engine.places,
        "leaving": engine.leaving,
        "waiting": engine.waiting,
        "cohorts": engine.cohorts_in_use(),
        "owners": {line: dict(owners) for line, owners in engine._owners.items() if owners},
        "work": engine.work._work,
        "visits": [place for members in engine.watchdog._slots.values() for place in members],
    }
    return [f"{name}: {left!r}" for name, left in books.items() if left]
