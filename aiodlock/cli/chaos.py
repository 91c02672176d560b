"""Chaos: parts of a sale are killed while it runs: one of each kind, then at random, and nobody without an end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from aiodlock._core.cancel import finish

if TYPE_CHECKING:
    from aiodlock.cli.part import Part
    from aiodlock.testing.servers import Server

__all__ = ["Chaos", "Connection", "Machine", "Victim"]

_ROUNDS = 2  # everybody is killed at most so often: who is begun again has to get somewhere
_PAUSE = (0.1, 0.5)  # seconds between two victims
_LOOK_EVERY = 0.01
_KILLED_WITHIN = 10.0
_BACK_WITHIN = 60.0


class Victim(Protocol):
    """Somebody who can be killed."""

    @property
    def role(self) -> str: ...

    @property
    def is_at_work(self) -> bool: ...

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself, and there will be nothing to kill any more."""
        ...

    async def strike(self) -> bool:
        """Kill it; return whether there was something to kill."""
        ...


class Connection:
    """The writer's connection to the database, ended by the database."""

    role = "connection"
    is_over = False

    def __init__(self, writer: Part, database: str) -> None:
        self._writer = writer
        self._database = database

    @property
    def is_at_work(self) -> bool:
        return self._writer.is_at_work and bool(self._writer.facts.get("session"))

    async def strike(self) -> bool:
        from aiodlock.inventory.orders.driver import see_through

        with suppress(Exception):  # it may have ended by itself
            await see_through(self._kill(self._writer.facts["session"]), within=_KILLED_WITHIN)
            return True
        return False

    async def _kill(self, session: int) -> None:
        from aiodlock.inventory.orders.database import Database

        async with Database(self._database) as administrator:
            await administrator.run(f"KILL CONNECTION {session:d}")


class Machine:
    """A server of our own: killed, and started again with what it has on disk."""

    is_over = False

    def __init__(self, role: str, server: Server, *, is_busy: Callable[[], bool]) -> None:
        self.role = role
        self._server = server
        self._is_busy = is_busy

    @property
    def is_at_work(self) -> bool:
        return self._is_busy()

    async def strike(self) -> bool:
        back = asyncio.ensure_future(asyncio.to_thread(self._crash))
        await finish(back, within=_BACK_WITHIN)  # to its end, also when the sale is called off: somebody closes it then
        back.result()
        return True

    def _crash(self) -> None:
        self._server.crash()
        self._server.start()


class Chaos:
    """Kills one of each role first, as soon as it is at work, then everybody in any order.

    A machine is the first of all, and who works for it the next, at once: while it is away nobody can get done.
    """

    def __init__(self, victims: Sequence[Victim], *, seed: int, told: Callable[[str], None]) -> None:
        self._dice = random.Random(seed)
        self._victims = sorted(victims, key=lambda victim: not isinstance(victim, Machine))
        self._roles = [*dict.fromkeys(victim.role for victim in self._victims)]  # of whom none was killed yet
        self._then = [victim for _ in range(_ROUNDS) for victim in self._dice.sample(victims, len(victims))]
        self._told = told

    @property
    def is_due(self) -> bool:
        """Whether a role of which one has to be killed was spared so far."""
        return any(not victim.is_over for victim in self._first())

    async def run(self) -> None:
        """Go on until everybody had his turns.

        Cancellation: who was killed is begun again by whoever owns it.
        """
        while self.is_due:
            if victim := await self._strike_one_of(self._first()):
                self._roles.remove(victim.role)
        while self._then:
            if victim := await self._strike_one_of(self._then):
                self._then.remove(victim)
                await asyncio.sleep(self._dice.uniform(*_PAUSE))

    def _first(self) -> list[Victim]:
        return [victim for victim in self._victims if victim.role in self._roles]

    async def _strike_one_of(self, plan: Sequence[Victim]) -> Victim | None:
        """Strike the first who is at work, and return it; nobody, after a while, if there was nothing to kill."""
        victim = next((one for one in plan if one.is_at_work), None)
        if victim is None or not await victim.strike():
            await asyncio.sleep(_LOOK_EVERY)
            return None
        self._told(victim.role)
        return victim
