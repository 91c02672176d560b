"""What a task of a program against the model may ask for: of a client, and of the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from aiodlock import LockClient
from tests.fuzz.model import Stage, key_of

__all__ = ["FULL", "KINDS", "PERMITS", "SIZES", "STEPS_TO_OPEN", "Asking", "draw"]

FULL = 1 << 30
PERMITS = 3
STEPS_TO_OPEN = 4
SEGMENTS = ("segment:hot:0", "segment:hot:1")
SIZES: dict[str, float] = {
    "lock:a": 1,
    "semaphore:b": PERMITS,
    "rwlock:c": FULL,
    "election:d": 1,
    **dict.fromkeys(SEGMENTS, 1),
    "latch:z": 0,  # nobody gets in until it opens; then everybody
}
SINGLE = ("lock", "read", "write", "permits", "leadership", "segment")
KINDS = (*SINGLE, "stealing", "any", "all", "multi", "multi", "latch")


@dataclass(frozen=True, slots=True)
class Asking:
    """One thing asked for; *wait* as `acquire` takes it. A multi-lock has *parts*, in the order asked."""

    kind: str
    wait: float | None
    count: int = 1  # permits
    user: str = ""
    parts: tuple[Asking, ...] = ()

    @property
    def stages(self) -> list[Stage]:
        """What the model is asked for: line by line, in the one order of keys."""
        home = SEGMENTS[int(self.user or 0)]
        match self.kind:
            case "multi":
                return sorted(
                    (stage for part in self.parts for stage in part.stages), key=lambda stage: key_of(stage[0][0])
                )
            case "all":
                return [([segment], 1) for segment in SEGMENTS]
            case "any" | "stealing":
                return [(sorted(SEGMENTS, key=lambda segment: segment != home), 1)]
        line, weight = {
            "lock": ("lock:a", 1),
            "permits": ("semaphore:b", self.count),
            "read": ("rwlock:c", 1),
            "write": ("rwlock:c", FULL),
            "leadership": ("election:d", 1),
            "segment": (home, 1),
            "latch": ("latch:z", 1),
        }[self.kind]
        return [([line], weight)]

    @asynccontextmanager
    async def of(self, client: LockClient) -> AsyncIterator[Any]:
        """Enter it; each task has a ticket of its own, so that the order is strict."""
        if self.kind == "latch":
            await client.latch("z", count=STEPS_TO_OPEN, ttl=3600).opened(self.wait)
            yield self
        elif self.kind == "permits":
            async with await self._lock(client).acquire(self.count, wait=self.wait) as hold:
                yield hold
        else:
            async with await self._lock(client).acquire(self.wait) as hold:
                yield hold

    def _lock(self, client: LockClient) -> Any:
        hot = client.segmented("hot", segments=len(SEGMENTS), fair=True, ttl=5)
        match self.kind:
            case "lock":
                return client.lock("a", fair=True, ttl=5)
            case "permits":
                return client.semaphore("b", permits=PERMITS, fair=True, ttl=5)
            case "read":
                return client.rwlock("c", fair=True, ttl=5).read()
            case "write":
                return client.rwlock("c", fair=True, ttl=5).write()
            case "leadership":
                return client.election("d", fair=True, ttl=5).leadership()
            case "segment":
                return hot.segment(int(self.user))
            case "stealing":
                return _stealing(hot, int(self.user))
            case "any":
                return hot.any()
            case "all":
                return hot.all()
        return client.multi(*(lock for part in self.parts for lock in part._locks(client)))

    def _locks(self, client: LockClient) -> Sequence[Any]:
        """Return what it is as a part of a multi-lock: so many permits are the same semaphore so many times."""
        return [self._lock(client) for _ in range(self.count)]


def _stealing(hot: Any, home: int) -> Any:
    return next(hot.lock(user, steal=True) for user in range(100) if hot.segment_of(user) == home)


def draw(chance: Random) -> Asking:
    """Choose what a task asks for, and how long it waits: not at all, some time, for ever."""
    kind = chance.choice(KINDS)
    wait = chance.choice([None, None, 0.0, chance.uniform(0.5, 8)])
    if kind != "multi":
        return _draw_one(chance, kind, wait)
    kinds = chance.sample([kind for kind in SINGLE if kind != chance.choice(["read", "write"])], k=chance.randint(2, 4))
    kinds = [kind for kind in kinds if not (kind == "read" and "write" in kinds)]
    return Asking("multi", wait, parts=tuple(_draw_one(chance, kind, None) for kind in kinds))


def _draw_one(chance: Random, kind: str, wait: float | None) -> Asking:
    user = str(chance.randrange(len(SEGMENTS))) if kind in {"segment", "stealing"} else ""
    return Asking(kind, wait, chance.randint(1, PERMITS) if kind == "permits" else 1, user)
