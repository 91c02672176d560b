"""A check: one behaviour that every backend must have, and the way to run it in a world."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from aiodlock.testing.conformance.world import World

__all__ = ["Check", "Prove", "Raised", "check", "raises", "run"]

Prove: TypeAlias = Callable[[World], Awaitable[None]]
_E = TypeVar("_E", bound=BaseException)


@dataclass(frozen=True, slots=True)
class Check:
    """A coroutine function that fails if the behaviour in its docstring is not there."""

    prove: Prove
    acceptance: tuple[int, ...] = ()  # numbers of the acceptance cases that it stands for
    needs: str = ""  # what the world must offer beyond clients: "faults"

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return str(getattr(self.prove, "__name__", self.prove))


def check(*acceptance: int, needs: str = "") -> Callable[[Prove], Check]:
    """Make a check of a coroutine function; *acceptance* numbers the cases that it stands for."""
    return lambda prove: Check(prove, acceptance, needs)


def run(which: Check, world: World) -> None:
    """Run one check in a fresh *world*, on an event loop of its own.

    It fails with whatever the check raises, when it takes longer than the world's patience, and when anything is left:
    a ticket on the server once all clients are closed, or a task.
    """
    world.needs = which.needs
    with asyncio.Runner(loop_factory=world.loop_factory) as runner:
        runner.run(_perform(which, world))


async def _perform(which: Check, world: World) -> None:
    try:
        async with asyncio.timeout(world.patience):
            await which.prove(world)
    except BaseException:
        await world.aclose()
        raise
    await world.aclose()
    assert not world.left, f"left on the server: {world.left}"
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert not tasks, f"tasks left behind: {tasks}"


class Raised(Generic[_E]):
    """The error that a block raised."""

    error: _E


@contextmanager
def raises(kind: type[_E]) -> Iterator[Raised[_E]]:
    """Fail unless the block raises an error of *kind*; a check needs no test runner for that."""
    raised: Raised[_E] = Raised()
    try:
        yield raised
    except kind as error:
        raised.error = error
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
