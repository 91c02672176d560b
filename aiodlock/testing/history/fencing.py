"""Fencing order: every ownership its own fence, larger than those of all it comes after.

A fence orders those who exclude each other. Readers of one read-write lock, or two permits of a semaphore, are inside
together and need no order among them; what must be in order are stays whose weights do not fit the size together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import cast

from aiodlock.testing.history.stays import Stay
from aiodlock.testing.history.violation import Violation

__all__ = ["check_accepted", "check_fencing"]


def check_fencing(history: Iterable[Stay], *, size: int = 1) -> list[Violation]:
    """Check that fences are there, unique, growing in order of holding, and not inverted in real time.

    Growing is asked of believed stays only; an inversion, a smaller fence asked for when the larger one had been given
    out already, is wrong also for an answer that came too late to be believed.
    """
    by_key: defaultdict[str, list[Stay]] = defaultdict(list)
    found = []
    for stay in history:
        if stay.fence is None:
            found.append(Violation("fence missing", f"{stay.key!r} of {stay.who} has no fence", (stay,)))
        else:
            by_key[stay.key].append(stay)
    for of_key in by_key.values():
        found += _doubled(of_key)
        found += _disorder("fence not growing", [s for s in of_key if s.believed], size, lambda stay: stay.start)
        found += _disorder("fence inverted", of_key, size, lambda stay: stay.asked)
    return found


def check_accepted(fences: Iterable[int]) -> list[Violation]:
    """Check a guarded resource's log: the fences it accepted, in its order, never go back."""
    largest, found = 0, []
    for position, fence in enumerate(fences):
        if fence < largest:
            found.append(Violation("stale write", f"entry {position}: fence {fence} after {largest}", (fence, largest)))
        largest = max(largest, fence)
    return found


def _doubled(history: list[Stay]) -> Iterable[Violation]:
    owner_of: dict[int, Stay] = {}
    for stay in history:
        first = owner_of.setdefault(_fence(stay), stay)
        if (first.who, first.id) != (stay.who, stay.id):
            text = f"{stay.key!r}: fence {stay.fence} of {first.who} and of {stay.who}"
            yield Violation("fence not unique", text, (first, stay))


def _disorder(rule: str, history: list[Stay], size: int, moment: Callable[[Stay], float]) -> Iterable[Violation]:
    """Find stays with a smaller fence than one that was given out before their *moment* and excludes them."""
    given_out = sorted(history, key=lambda stay: stay.start, reverse=True)
    largest: dict[int, Stay] = {}  # by weight: a line has few different ones, two for a read-write lock
    for stay in sorted(history, key=moment):
        while given_out and given_out[-1].start < moment(stay):
            earlier = given_out.pop()
            largest[earlier.weight] = max(largest.get(earlier.weight, earlier), earlier, key=_fence)
        for weight, earlier in largest.items():
            if weight + stay.weight > size and _fence(earlier) > _fence(stay):
                text = f"{stay.key!r}: {stay.who} got {stay.fence} after {earlier.who} got {earlier.fence}"
                yield Violation(rule, text, (earlier, stay))


def _fence(stay: Stay) -> int:
    return cast(int, stay.fence)
