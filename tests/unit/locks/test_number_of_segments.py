"""Two clients that count the segments of one key differently: told at once, whatever they ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

import aiodlock
from aiodlock import LockClient, SegmentedLock

WAYS: dict[str, Callable[[LockClient, SegmentedLock], Awaitable[object]]] = {
    "lock": lambda locks, hot: hot.lock("u").acquire(),
    "block": lambda locks, hot: hot.lock("u").__aenter__(),
    "try": lambda locks, hot: hot.lock("u").try_acquire(),
    "run": lambda locks, hot: hot._locks[0].run(int),
    "steal": lambda locks, hot: hot.lock("u", steal=True).acquire(),
    "any": lambda locks, hot: hot.any().acquire(),
    "all": lambda locks, hot: hot.all().acquire(),
    "multi": lambda locks, hot: locks.multi(hot._locks[0], locks.lock("other")).acquire(),
}


@pytest.mark.parametrize("way", WAYS)
async def test_another_number_is_refused(way: str) -> None:
    """While eight segments are in use, nobody gets in by sixteen."""
    async with aiodlock.connect("memory://segments") as one, aiodlock.connect("memory://segments") as two:
        hold = await one.segmented("k", segments=8).lock("u").acquire()
        with pytest.raises(aiodlock.ConfigurationError, match="in use with 8 segments"):
            await WAYS[way](two, two.segmented("k", segments=16))
        await hold.release()


@pytest.mark.parametrize("way", WAYS)
async def test_the_same_number_is_not(way: str) -> None:
    """With eight on both sides every way leads in once the lock is free."""
    async with aiodlock.connect("memory://segments") as one, aiodlock.connect("memory://segments") as two:
        await one.segmented("k", segments=8).lock("u").run(int)
        got = await WAYS[way](two, two.segmented("k", segments=8))
        if isinstance(got, aiodlock.Hold | aiodlock.MultiHold):
            await got.release()
        else:
            assert got == 0  # what run(int) returned
