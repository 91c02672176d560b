"""What a checker answers: a list of these, empty if the history is correct."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule, and the parts of the history that break it."""

    rule: str
    message: str
    evidence: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
