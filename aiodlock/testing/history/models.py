"""Sequential models: what an object would answer if operations came one by one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from aiodlock.testing.history.operations import Operation

__all__ = ["Counter", "Model", "State", "Stock", "TryLock"]

State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """An object's first state, and what an operation makes of a state."""

    def first(self) -> State: ...

    def step(self, state: State, operation: Operation) -> tuple[State, ...]:
        """Return the states that the operation may leave behind; none if it cannot have answered so.

        Only name, argument and result may matter, not who called. An unknown result fits every answer.
        """
        ...


def _fits(operation: Operation, result: Hashable) -> bool:
    return not operation.known or operation.result == result


@dataclass(frozen=True, slots=True)
class TryLock:
    """``acquire`` (argument: the owner) answers whether the lock was free, ``release`` whether the owner had it.

    Not re-entrant, and nothing expires: for histories that are short against the ttl.
    """

    def first(self) -> str:
        return ""

    def step(self, state: str, operation: Operation) -> tuple[str, ...]:
        match operation.name, operation.argument:
            case "acquire", str(owner):
                done, after = state == "", owner
            case "release", str(owner):
                done, after = state == owner, ""
            case other:
                raise ValueError(f"a try-lock has no {other!r}")
        return (after if done else state,) if _fits(operation, done) else ()


@dataclass(frozen=True, slots=True)
class Counter:
    """``add`` (argument: how much) and ``read`` answer the value after them."""

    start: int = 0

    def first(self) -> int:
        return self.start

    def step(self, state: int, operation: Operation) -> tuple[int, ...]:
        match operation.name, operation.argument:
            case "add", int(amount):
                after = state + amount
            case "read", None:
                after = state
            case other:
                raise ValueError(f"a counter has no {other!r}")
        return (after,) if _fits(operation, after) else ()


@dataclass(frozen=True, slots=True)
class Stock:
    """``take`` (argument: how many) answers whether there were enough; ``put_back`` nothing; ``remaining`` the rest."""

    loaded: int

    def first(self) -> int:
        return self.loaded

    def step(self, state: int, operation: Operation) -> tuple[int, ...]:
        result: Hashable = None
        match operation.name, operation.argument:
            case "take", int(quantity):
                result = quantity <= state
                after = state - quantity if result else state
            case "put_back", int(quantity):
                after = state + quantity
            case "remaining", None:
                result = after = state
            case other:
                raise ValueError(f"a stock has no {other!r}")
        return (after,) if _fits(operation, result) else ()
