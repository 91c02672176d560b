"""What the tasks of a simulated process do: everything the public face allows, by chance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from aiodlock import Hold, LockClient, MultiHold, WriteHold
from aiodlock.errors import (
    AcquireTimeoutError,
    BackendUnavailableError,
    ClientClosedError,
    LockLostError,
    NotHeldError,
)
from tests.fuzz.process import Process
from tests.fuzz.wishes import Wish, members
from tests.fuzz.witness import Witness

EXPECTED = (AcquireTimeoutError, BackendUnavailableError, ClientClosedError, LockLostError)


class Section:
    """Time inside by one ownership; the last one out tells the witness, before it gives the place up."""

    def __init__(self, witness: Witness, holds: Sequence[Hold]) -> None:
        self._witness = witness
        self._owns = [hold._own for hold in holds]
        self._entries = 0

    def __enter__(self) -> Section:
        self._entries += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entries -= 1
        if not self._entries:
            for own in self._owns:
                self._witness.left(own, "leaves")


class Program:
    """One task: it comes, wants something once or a few times, and goes."""

    def __init__(
        self, process: Process, client: LockClient, witness: Witness, random: Random, wish: Wish, *, pace: float
    ) -> None:
        self.process = process
        self.client = client
        self.witness = witness
        self.wish = wish
        self.pace = pace  # the longest step inside, in ttls
        self.random = Random(random.getrandbits(32))
        self.children: list[asyncio.Task[None]] = []

    async def run(self, *, rounds: int, within: float) -> None:
        lock = self.wish.of(self.client)
        ways = [self._hold, self._try]
        if hasattr(lock, "__aenter__"):
            ways += [self._block] * 3
        if hasattr(lock, "run") and self.wish.kind not in {"any", "stealing"}:  # a function cannot tell which it got
            ways += [self._run]
        for _ in range(rounds):
            await asyncio.sleep(self.random.random() * within)
            try:
                await self.random.choice(ways)(lock)
            except EXPECTED as error:
                self.witness.note(self.process.name, "task got", type(error).__name__)

    # --- ways in -----------------------------------------------------------------------------------------------

    async def _block(self, lock: Any) -> None:
        asked = self.witness.now()
        async with lock as hold:
            await self._stay(lock, hold, asked)

    async def _try(self, lock: Any) -> None:
        asked = self.witness.now()
        hold = await lock.try_acquire()
        if hold is not None:
            async with hold:
                await self._stay(lock, hold, asked)

    async def _hold(self, lock: Any) -> None:
        asked = self.witness.now()
        limited = self.random.random() < 0.5
        hold = await lock.acquire(wait=self.random.random() * 3 * self.wish.ttl if limited else None)
        try:
            await self._stay(lock, hold, asked)
        finally:
            try:
                await hold.release() if self.random.random() < 0.5 else hold.release_nowait()
            except LockLostError:
                self.witness.note(self.process.name, "released too late")

    async def _run(self, lock: Any) -> None:
        lines = [member._line for member in getattr(lock, "members", (lock,))]
        await lock.run(lambda: self.witness.ran_under(lines))

    # --- inside ------------------------------------------------------------------------------------------------

    async def _stay(self, lock: Any, hold: Hold | MultiHold, asked: float) -> None:
        if hold.lost:  # frozen between the grant and this step
            return
        for member in members(hold):
            self.witness.entered(self.process, member, asked=asked)
        with Section(self.witness, members(hold)) as section:
            if isinstance(hold, Hold) and self.random.random() < 0.15:
                self.children.append(self.process.spawn(self._child(hold, section)))
            long = self.random.random() < 0.15
            for _ in range(self.random.choice([0, 1, 1, 2, 3])):
                await self._nap(1.0 if long else self.pace)
                hold.check()
                for member in members(hold):
                    self.witness.looked(member._own)
                    self.witness.write(self.process, member)
                if isinstance(hold, Hold) and self.random.random() < 0.2:
                    await self._do_more(lock, hold)

    async def _do_more(self, lock: Any, hold: Hold) -> None:
        match self.random.choice(["extend", "again", "downgrade"]):
            case "extend":
                await hold.extend(self.wish.ttl * self.random.uniform(0.5, 3))
            case "again" if self.wish.reenters and hold._place.ticket.weight == lock._shape.weight:
                async with lock as again:
                    assert again.fence == hold.fence
                    await self._nap(self.pace)
            case "downgrade" if isinstance(hold, WriteHold):
                self.witness.becomes_lighter(self.process, hold)
                await hold.downgrade()

    async def _child(self, hold: Hold, section: Section) -> None:
        """Hold it too, perhaps longer than the parent."""
        try:
            async with hold.reenter() as again:
                with section:
                    await self._nap(2 * self.pace)
                    again.check()
        except (LockLostError, NotHeldError) as error:
            self.witness.note(self.process.name, "child got", type(error).__name__)

    async def _nap(self, ttls: float) -> None:
        await asyncio.sleep(self.random.random() * ttls * self.wish.ttl)
