"""The judge: what must be true of a history, and of what is left when everybody has gone."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import replace

from aiodlock._core.engine import Engine
from aiodlock._core.fence import split
from aiodlock.testing.history import Stay, Violation, check_accepted, check_exclusion, check_fencing, stays
from tests.fuzz.witness import Witness


def judge_history(witness: Witness) -> list[Violation]:
    """Return what those inside were not promised, and got or did not get."""
    kept = list(_as_promised(witness))
    found = [*witness.violations, *check_exclusion(kept), *check_fencing(kept)]
    for log in witness.accepted.values():
        found += check_accepted(log)
    found += [
        Violation("exclusion", f"a function ran under {key!r} at {at:.6f} while {stay.who} was inside", (stay,))
        for key, at in witness.ran
        for stay in kept
        if stay.key == key and stay.start < at < stay.end and not _is_broken(witness, key, at)
    ]
    return found


def _is_broken(witness: Witness, key: str, at: float) -> bool:
    """Say whether a function that ran then may have had a ticket that the server had ended; it does not tell."""
    return any(line == key and since <= at for (line, _), since in witness.forced.items())


def _as_promised(witness: Witness) -> Iterable[Stay]:
    """Yield the stays, each until the server broke its word: nothing is promised to a hold that it ended or forgot."""
    for stay in stays(witness.events):
        broken = witness.forced.get((stay.key, split(stay.fence or 0)[0]))
        if broken is None:
            yield stay
        elif stay.start < broken:
            yield replace(stay, end=min(stay.end, broken))


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
        "cohorts": engine._cohorts,
        "owners": {line: dict(owners) for line, owners in engine._owners.items() if owners},
        "work": engine.work._work,
        "visits": [place for members in engine.watchdog._slots.values() for place in members],
    }
    return [f"{name}: {left!r}" for name, left in books.items() if left]
