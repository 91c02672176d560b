"""Marks for tests that stand for a numbered acceptance case; tests/conformance/test_acceptance.py has the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["acceptance"]

_F = TypeVar("_F", bound=Callable[..., object])


def acceptance(*numbers: int) -> Callable[[_F], _F]:
    """Mark a test; the table finds the mark in the source."""
    assert all(1 <= number <= 63 for number in numbers)
    return lambda test: test
