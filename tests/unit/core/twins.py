"""How a broken twin is caught: the very test that passes on the rule fails without it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["Break", "fails", "set_to"]

Break = Callable[[pytest.MonkeyPatch], None]


def set_to(target: object, name: str, value: object) -> Break:
    """Return what puts *value* in the place of a rule."""
    return lambda patch: patch.setattr(target, name, value)


async def fails(test: Callable[..., Any], stage: dict[str, object]) -> None:
    """Run *test* with what it asks for from the *stage*; it has to fail, and not because it cannot run."""
    failing = asyncio.create_task(test(**{name: stage[name] for name in inspect.signature(test).parameters}))
    await asyncio.wait({failing})
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    error = asyncio.CancelledError() if failing.cancelled() else failing.exception()
    assert error is not None
    assert not isinstance(error, AttributeError | NameError | TypeError), error
