"""What a task may want: which synchronizer, with which policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiodlock import Hold, LockClient, MultiHold, Poll, Retry, Semaphore

KINDS = ("lock", "read", "write", "semaphore", "multi", "segment", "stealing", "any", "all")
SEGMENTS = 2


@dataclass(frozen=True, slots=True)
class Wish:
    """One way to ask for something; tasks that share one compete."""

    kind: str
    key: str
    count: int = 1  # permits asked for
    permits: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def ttl(self) -> float:
        return float(self.settings["ttl"])

    @property
    def reenters(self) -> bool:
        return self.kind in {"lock", "read", "write"}

    def of(self, client: LockClient) -> Any:
        """Return what *client* has for it: something to enter, or to acquire."""
        match self.kind:
            case "lock":
                return client.lock(self.key, **self.settings)
            case "read":
                return client.rwlock(self.key, **self.settings).read()
            case "write":
                return client.rwlock(self.key, **self.settings).write()
            case "semaphore":
                return Permits(client.semaphore(self.key, permits=self.permits, **self.settings), self.count)
            case "multi":
                locks = [client.lock(key, **self.settings) for key in "ab"]
                return client.multi(*locks, client.semaphore("s", permits=self.permits, **self.settings))
        segmented = client.segmented("hot", segments=SEGMENTS, **self.settings)
        match self.kind:
            case "segment":
                return segmented.lock(self.key)
            case "stealing":
                return segmented.lock(self.key, steal=True)
            case "any":
                return segmented.any()
        return segmented.all()


class Permits:
    """Some permits of a semaphore, asked for like a lock."""

    def __init__(self, semaphore: Semaphore, count: int) -> None:
        self._semaphore = semaphore
        self._count = count

    async def acquire(self, wait: float | None = None) -> Hold:
        return await self._semaphore.acquire(self._count, wait=wait)

    async def try_acquire(self) -> Hold | None:
        return await self._semaphore.try_acquire(self._count)


def members(hold: Hold | MultiHold) -> tuple[Hold, ...]:
    """Return the holds in *hold*."""
    return hold.holds if isinstance(hold, MultiHold) else (hold,)


def draw_wishes(random: Random, ttl: float) -> list[Wish]:
    """Choose what the tasks of one run want: few things, most of them the same, so that they meet."""
    kinds = ["lock"] if random.random() < 0.5 else random.sample(KINDS, k=2)
    if random.random() < 0.3:
        kinds += ["read", "write"]
    permits = random.randint(1, 4)
    wishes = []
    for kind in kinds:
        key = {"semaphore": "s"}.get(kind) or random.choice("ab")
        count = random.randint(1, permits)
        wishes += [Wish(kind, key, count, permits, _settings(random, ttl)) for _ in range(random.choice([1, 1, 2]))]
    return wishes


def _settings(random: Random, ttl: float) -> dict[str, Any]:
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
            settings["waiting"] = Retry(times=random.randint(1, 20), interval=random.uniform(0.02, 0.3) * ttl)
        case "short":
            settings["max_hold"] = max(0.05, random.uniform(0.3, 2) * ttl)
    if random.random() < 0.3:
        settings["on_lost"] = "flag"
    return settings
