"""The register of broken twins: what each breaks, and which checks must fail on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiodlock.backends.memory import MemoryBackend

__all__ = ["TWINS", "Break", "caught_by", "deaf_to", "sort_queue"]

Break = Callable[[pytest.MonkeyPatch], None]

TWINS: dict[str, tuple[Break, tuple[str, ...]]] = {}


def caught_by(*checks: str) -> Callable[[Break], Break]:
    """Register a twin with the checks that must catch it."""

    def register(twin: Break) -> Break:
        assert twin.__name__ not in TWINS
        TWINS[twin.__name__] = (twin, checks)
        return twin

    return register


def deaf_to(patch: pytest.MonkeyPatch, *kinds: type) -> None:
    """Lose every call of these kinds."""
    push = MemoryBackend.push
    patch.setattr(MemoryBackend, "push", lambda self, call: None if isinstance(call, kinds) else push(self, call))


def sort_queue(line: Any, key: Callable[[Any], float]) -> None:
    """Put those who wait in a line of the memory server in another order."""
    line.queue = type(line.queue)(sorted(line.queue.items(), key=lambda one: key(one[1])))
