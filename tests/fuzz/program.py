"""What the tasks of a simulated process do with locks: everything the public face allows, by chance."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

from aiodlock import LockClient, Poll, Retry
from aiodlock._core.hold import Hold
from aiodlock.errors import (
    AcquireTimeoutError,
    BackendUnavailableError,
    ClientClosedError,
    LockLostError,
    NotHeldError,
)
from aiodlock.locks.lock import Lock
from tests.fuzz.process import Process
from tests.fuzz.witness import Witness

EXPECTED = (AcquireTimeoutError, BackendUnavailableError, ClientClosedError, LockLostError)


@dataclass(frozen=True, slots=True)
class Style:
    """How a lock of this run is asked for."""

    kind: str
    key: str
    settings: dict[str, Any]


def draw_style(random: Random, key: str, ttl: float) -> Style:
    """Choose a policy; most are plain, so that tasks of a process share tickets."""
    settings: dict[str, Any] = {"ttl": ttl}
    match random.choices(["plain", "fair", "fixed", "linger", "poll", "retry", "short"], [6, 2, 1, 2, 1, 1, 1])[0]:
        case "fair":
            settings["fair"] = True
        case "fixed":
            settings["renew"] = False
        case "linger":
            settings["linger"] = random.uniform(0.01, ttl)
        case "poll":
            settings["waiting"] = Poll(interval=max(0.001, random.uniform(0.02, 0.5) * ttl))
        case "retry":
            settings["waiting"] = Retry(
                times=random.randint(1, 20), interval=max(0.001, random.uniform(0.02, 0.3) * ttl)
            )
        case "short":
            settings["max_hold"] = max(0.05, random.uniform(0.3, 2) * ttl)
    if random.random() < 0.3:
        settings["on_lost"] = "flag"
    return Style("lock", key, settings)


class Section:
    """Time inside by one ownership; the last one out tells the witness, before it gives the place up."""

    def __init__(self, witness: Witness, hold: Hold) -> None:
        self._witness = witness
        self._own = hold._own
        self._entries = 0

    def __enter__(self) -> Section:
        self._entries += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entries -= 1
        if not self._entries:
            self._witness.left(self._own, "leaves")


class Program:
    """One task: it comes, wants something once or a few times, and goes."""

    def __init__(self, process: Process, client: LockClient, witness: Witness, random: Random, style: Style) -> None:
        self.process = process
        self.client = client
        self.witness = witness
        self.style = style
        self.random = Random(random.getrandbits(32))
        self.ttl: float = style.settings["ttl"]
        self.children: list[asyncio.Task[None]] = []

    async def run(self, *, rounds: int, within: float) -> None:
        for _ in range(rounds):
            await asyncio.sleep(self.random.random() * within)
            try:
                await self._act()
            except EXPECTED as error:
                self.witness.note(self.process.name, "task got", type(error).__name__)

    async def _act(self) -> None:
        lock = self.client.lock(self.style.key, **self.style.settings)
        acts = [self._block, self._limited, self._hold, self._try, self._run]
        await self.random.choices(acts, [4, 2, 2, 1, 1])[0](lock)

    # --- ways in -----------------------------------------------------------------------------------------------

    async def _block(self, lock: Lock) -> None:
        asked = self.witness.now()
        async with lock as hold:
            await self._stay(lock, hold, asked)

    async def _limited(self, lock: Lock) -> None:
        asked = self.witness.now()
        hold = await lock.acquire(wait=self.random.random() * 3 * self.ttl)
        async with hold:
            await self._stay(lock, hold, asked)

    async def _try(self, lock: Lock) -> None:
        asked = self.witness.now()
        hold = await lock.try_acquire()
        if hold is not None:
            async with hold:
                await self._stay(lock, hold, asked)

    async def _hold(self, lock: Lock) -> None:
        asked = self.witness.now()
        hold = await lock.acquire()
        try:
            await self._stay(lock, hold, asked)
        finally:
            try:
                if self.random.random() < 0.5:
                    await hold.release()
                else:
                    hold.release_nowait()
            except LockLostError:
                self.witness.note(self.process.name, "released too late")

    async def _run(self, lock: Lock) -> None:
        await lock.run(lambda: self.witness.ran.append((lock.key, self.witness.now())))

    # --- inside ------------------------------------------------------------------------------------------------

    async def _stay(self, lock: Lock, hold: Hold, asked: float) -> None:
        if hold.lost:  # frozen between the grant and this step
            return
        self.witness.entered(self.process, hold, asked=asked)
        with Section(self.witness, hold) as section:
            if self.random.random() < 0.15:
                self.children.append(self.process.spawn(self._child(hold, section)))
            await self._steps(lock, hold)

    async def _child(self, hold: Hold, section: Section) -> None:
        """Hold it too, perhaps longer than the parent."""
        try:
            async with hold.reenter() as again:
                with section:
                    await asyncio.sleep(self.random.random() * self.ttl * 0.1)
                    again.check()
        except (LockLostError, NotHeldError) as error:
            self.witness.note(self.process.name, "child got", type(error).__name__)

    async def _steps(self, lock: Lock, hold: Hold) -> None:
        long = self.random.random() < 0.15
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            await asyncio.sleep(self.random.random() * self.ttl * (1.0 if long else 0.05))
            hold.check()
            self.witness.looked(hold._own)
            self.witness.write(self.process, hold)
            chance = self.random.random()
            if chance < 0.1:
                await hold.extend(self.ttl * self.random.uniform(0.5, 3))
            elif chance < 0.2 and lock.policy.reentrant:
                async with lock as again:
                    assert again.fence == hold.fence
                    await asyncio.sleep(self.random.random() * self.ttl * 0.05)
