"""No public coroutine is left out: a new one fails here until it has a row among the operations."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

import aiodlock
from tests.cancellation.kinds import KINDS
from tests.cancellation.matrix import ENTERING
from tests.cancellation.operations import OPERATIONS
from tests.cancellation.sweep import Cell, rehearse


def public_coroutines() -> Iterator[tuple[CodeType, str]]:
    """Yield the code of every public coroutine and asynchronous generator, and of both ends of every block."""
    for kind in (thing for name in aiodlock.__all__ if inspect.isclass(thing := getattr(aiodlock, name))):
        for name, function in inspect.getmembers(kind, inspect.isfunction):
            is_coroutine = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            if (is_coroutine and not name.startswith("_")) or name in ("__aenter__", "__aexit__"):
                yield function.__code__, f"{kind.__name__}.{name}"


def test_every_public_coroutine_is_swept() -> None:
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for name, operation in OPERATIONS.items():
            for kind in KINDS if name in ENTERING else operation.kinds:
                assert not rehearse(Cell(name, "free", kind=kind))
    finally:
        sys.setprofile(before)
    assert not [name for code, name in public_coroutines() if code not in called]
