"""A lock that is made for every request: what its line needs is found again, and no more of it is kept than allowed."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import AcquireTimeoutError, LockClient
from aiodlock._core import engine as engine_module
from aiodlock._core.cohort import Cohort
from aiodlock.testing.faults import Faults


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
    monkeypatch.setattr(locks._at_work(), "_most_cohorts", 1)
    old, order = locks.lock("k"), list[str]()
    for lock in (old, locks.lock("another")):
        async with lock:
            pass
    first = old._cohort

    async def wait() -> None:
        async with old:
            order.append("old")

    async with locks.lock("k") as hold:
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert old._cohort is hold._cohort is not first
        order.append("new")
    await waiting
    assert order == ["new", "old"]


async def crowd(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Use many lines one after the other, and one all the time; return those whose cohorts are kept."""
    monkeypatch.setattr(engine_module, "MOST_COHORTS", 4)
    engine = locks._at_work()
    engine._most_cohorts = 4
    async with locks.lock("held"):
        for number in range(10):
            async with locks.lock(f"k-{number}"):
                pass
        assert engine.lines_in_use() == {locks.lock("held")._line}
        return [cohort.line.key for cohort in engine.cohorts.values()]


async def test_those_that_nobody_uses_make_room_and_none_is_kept_when_closed(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, kept = locks._at_work(), await crowd(locks, monkeypatch)
    assert "held" in kept
    assert len(kept) <= 4
    assert not engine.lines_in_use()
    await locks.aclose()
    assert not engine.cohorts


async def test_who_gets_no_answer_is_not_told_of_a_former_holder(locks: LockClient, other: LockClient) -> None:
    async with other.lock("k"):
        with pytest.raises(AcquireTimeoutError, match="web-2"):
            await locks.lock("k").acquire(0.1)
    Faults(locks).fall_silent()
    with pytest.raises(AcquireTimeoutError) as caught:
        await locks.lock("k").acquire(0.1)
    assert caught.value.holder is None


async def test_a_client_that_forgets_at_once_is_found(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    drop_idle, let_go = locks._at_work()._drop_idle, Cohort._let_go
    monkeypatch.setattr(Cohort, "_let_go", lambda self, place: (let_go(self, place), drop_idle())[0])
    first, second = await cohorts_of_two(locks)
    assert first is not second


async def test_a_client_that_drops_what_is_used_is_found(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(Cohort, "is_idle", True)
    with pytest.raises(AssertionError):
        await crowd(locks, monkeypatch)
