"""Every synchronizer: how our client asks for it, and how another client comes between. A new one is a new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiodlock.client import LockClient

__all__ = ["KEY", "KINDS", "Kind"]

KEY = "swept"


@dataclass(frozen=True, slots=True)
class Kind:
    """One synchronizer: `ours` with a policy, and `theirs`, which excludes ours."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    most: float = 1  # how many of us may be inside together
    keeps: frozenset[str] = frozenset()  # lines in which a ticket of an open client stays on purpose


class AllPermits:
    """A semaphore of which everybody takes all."""

    def __init__(self, client: LockClient, permits: int, **policy: Any) -> None:
        self._semaphore = client.semaphore(KEY, permits=permits, **policy)
        self._permits = permits

    async def __aenter__(self) -> Any:
        self._hold = await self._semaphore.acquire(self._permits)
        return await self._hold.__aenter__()

    async def __aexit__(self, *exc: Any) -> None:
        await self._hold.__aexit__(*exc)

    async def acquire(self) -> Any:
        return await self._semaphore.acquire(self._permits)

    async def try_acquire(self) -> Any:
        return await self._semaphore.try_acquire(self._permits)


def _lock(client: LockClient, **policy: Any) -> Any:
    return client.lock(KEY, **policy)


def _read(client: LockClient, **policy: Any) -> Any:
    return client.rwlock(KEY, **policy).read()


def _write(client: LockClient, **policy: Any) -> Any:
    return client.rwlock(KEY, **policy).write()


def _permit(client: LockClient, **policy: Any) -> Any:
    return client.semaphore(KEY, permits=2, **policy)


def _permits(client: LockClient, **policy: Any) -> Any:
    return AllPermits(client, 2, **policy)


def _several(client: LockClient, **policy: Any) -> Any:
    wait = policy.pop("wait", None)
    return client.multi(client.lock(KEY, **policy), client.rwlock("second", **policy).write(), wait=wait)


def _second(client: LockClient, **policy: Any) -> Any:
    return client.rwlock("second", **policy).read()


def _segment(client: LockClient, **policy: Any) -> Any:
    return client.segmented(KEY, segments=2, **policy).lock("somebody")


def _stealing(client: LockClient, **policy: Any) -> Any:
    return client.segmented(KEY, segments=2, **policy).lock("somebody", steal=True)


def _any_segment(client: LockClient, **policy: Any) -> Any:
    return client.segmented(KEY, segments=2, **policy).any()


def _all_segments(client: LockClient, **policy: Any) -> Any:
    return client.segmented(KEY, segments=2, **policy).all()


def _leadership(client: LockClient, **policy: Any) -> Any:
    return client.election(KEY, **policy).leadership()


SEGMENTS = frozenset({"segments"})  # the number of segments is kept for a ttl after the last use

KINDS: dict[str, Kind] = {
    "lock": Kind(_lock, _lock),
    "read": Kind(_read, _write, most=float("inf")),
    "write": Kind(_write, _read),
    "semaphore": Kind(_permit, _permits, most=2),
    "multi": Kind(_several, _second),
    "segment": Kind(_segment, _segment, keeps=SEGMENTS),
    "stealing": Kind(_stealing, _all_segments, most=2, keeps=SEGMENTS),
    "any segment": Kind(_any_segment, _all_segments, most=2, keeps=SEGMENTS),
    "all segments": Kind(_all_segments, _segment, keeps=SEGMENTS),
    "election": Kind(_leadership, _leadership),
}
