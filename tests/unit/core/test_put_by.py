"""A lock that is made for every request: what its line needs is found again, and no more of it is kept than allowed."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import AcquireTimeoutError, LockClient
from aiodlock._core import engine as engine_module
from aiodlock._core.cohort import Cohort
from aiodlock._core.engine import Engine


async def cohorts_of_two(locks: LockClient) -> tuple[Cohort | None, Cohort | None]:
    """Enter the same line with one lock after the other."""
    first, second = locks.lock("k", ttl=5), locks.lock("k", ttl=5)
    async with first:
        pass
    async with second:
        pass
    return first._cohort, second._cohort


async def test_the_next_lock_of_a_line_finds_its_cohort(locks: LockClient) -> None:
    first, second = await cohorts_of_two(locks)
    assert first is second is not None


async def test_a_lock_that_was_used_long_ago_does_not_bring_a_second_cohort(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own made room for others; while another is in use, it joins that one."""
    monkeypatch.setattr(engine_module, "MOST_PUT_BY", 1)
    old, order = locks.lock("k"), list[str]()
    for lock in (old, locks.lock("another")):
        async with lock:
            pass

    async def wait() -> None:
        async with old:
            order.append("old")

    async with locks.lock("k") as hold:
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert old._cohort is hold._cohort
        order.append("new")
    await waiting
    assert order == ["new", "old"]


async def test_few_are_kept_and_none_when_closed(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MOST_PUT_BY", 3)
    engine = locks._at_work()
    for number in range(10):
        async with locks.lock(f"k-{number}"):
            pass
    assert [cohort.line.key for cohort in engine._put_by.values()] == ["k-7", "k-8", "k-9"]
    assert not engine.cohorts
    await locks.aclose()
    assert not engine._put_by


async def test_who_gets_no_answer_is_not_told_of_a_former_holder(locks: LockClient, other: LockClient) -> None:
    async with other.lock("k"):
        with pytest.raises(AcquireTimeoutError, match="web-2"):
            await locks.lock("k").acquire(0.1)
    cohort = locks._at_work().cohort(locks.lock("k")._line, locks.lock("k")._shape, locks.lock("k").policy)
    assert cohort.holder is None
    cohort.balance()


async def test_a_client_that_forgets_at_once_is_found(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(Engine, "put_by", lambda self, cohort: self.cohorts.pop(cohort.key, None))
    first, second = await cohorts_of_two(locks)
    assert first is not second
