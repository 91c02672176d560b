"""Mutual exclusion: at no instant do those who believe to be inside weigh more than the size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from aiodlock.testing.history.stays import Stay
from aiodlock.testing.history.violation import Violation

__all__ = ["check_exclusion"]


def check_exclusion(history: Iterable[Stay], *, size: int = 1) -> list[Violation]:
    """Sweep over the stays of each key: size 1 is a lock, N a semaphore, a writer's weight a rwlock.

    A stay that begins at the instant another ends does not overlap it.
    """
    by_key: defaultdict[str, list[Stay]] = defaultdict(list)
    for stay in history:
        if stay.believed:
            by_key[stay.key].append(stay)
    return [violation for key, of_key in by_key.items() for violation in _sweep(key, of_key, size)]


def _sweep(key: str, history: list[Stay], size: int) -> Iterable[Violation]:
    edges = [(stay.end, 0, stay) for stay in history] + [(stay.start, 1, stay) for stay in history]
    inside: dict[int, Stay] = {}
    weight = 0
    for at, enters, stay in sorted(edges, key=lambda edge: edge[:2]):
        if not enters:
            weight -= inside.pop(id(stay)).weight
            continue
        inside[id(stay)] = stay
        weight += stay.weight
        if weight > size:
            names = ", ".join(other.who for other in inside.values())
            text = f"{key!r} at {at:.6f}: {weight} of {size} inside: {names}"
            yield Violation("exclusion", text, tuple(inside.values()))
