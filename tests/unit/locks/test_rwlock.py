"""The read-write lock inside one client: what its readers share, and a downgrade on a bad network."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import Hold, LockClient, LockError, LockLostError, ReadLock
from aiodlock.testing import Faults, settle
from tests.unit.core.body import Body


async def _waits(task: asyncio.Task[object]) -> bool:
    await settle()
    return not task.done()


# --- the place of readers ------------------------------------------------------------------------------------


async def test_readers_of_one_client_send_one_join_and_one_leave(locks: LockClient, faults: Faults) -> None:
    """Coming and going in any order, the server sees one ticket, and no verb for those in between."""
    read = locks.rwlock("k").read()
    first, second = await read.acquire(), await asyncio.create_task(_kept(read))
    await first.release()
    third = await asyncio.create_task(_kept(read))
    assert faults.sent == ["join"]
    assert len({hold.fence for hold in (first, second, third)}) == 3
    await second.release()
    await third.release()
    assert faults.sent == ["join", "leave"]


async def _kept(read: ReadLock) -> Hold:
    hold = await read.acquire()
    hold._belong_to(None)  # it goes on without this task
    return hold


async def test_a_place_is_closed_while_company_waits_and_open_to_re_entry(locks: LockClient, other: LockClient) -> None:
    """The new reader waits with a ticket of its own; the old one leaves with its last reader."""
    rw = locks.rwlock("k")
    async with rw.read():
        writer = asyncio.create_task(other.rwlock("k").write().acquire())
        await settle()
        late = asyncio.create_task(rw.read().acquire())
        assert await _waits(late)
        async with rw.read(), rw.read():
            pass
        rows = [(row.owner, row.inside) async for row in locks.inspect()]
        assert rows == [("web-1", True), ("web-2", False), ("web-1", False)]
    await (await writer).release()
    await (await late).release()


async def test_a_try_does_not_enter_a_place_that_was_revoked(locks: LockClient) -> None:
    """It gets a ticket of its own, and does not wait for the end of the old one."""
    rw = locks.rwlock("k")
    async with rw.read() as hold:
        await rw.read().revoke("maintenance")
        await settle()
        second = await asyncio.create_task(rw.read().try_acquire())
        assert second is not None
        assert second.fence >> 15 > hold.fence >> 15
        await second.release()


async def test_a_reader_over_its_max_hold_does_not_keep_writers_out(locks: LockClient, other: LockClient) -> None:
    """It stays in its block all the same: the shared ticket ends when nobody else needs it."""

    async def overstay() -> None:
        async with locks.rwlock("k", ttl=3, max_hold=2, on_lost="flag").read():
            await asyncio.sleep(60)

    task = asyncio.create_task(overstay())
    async with locks.rwlock("k", ttl=3).read() as hold:
        await asyncio.sleep(10)
        hold.check()
    async with asyncio.timeout(3.1):
        await (await other.rwlock("k").write().acquire()).release()
    with pytest.raises(LockLostError):
        await task


async def test_a_dropped_reader_does_not_keep_the_place_alive(locks: LockClient, other: LockClient) -> None:
    """Nobody can release it: it is renewed no more when the others have gone."""
    rw = locks.rwlock("k", ttl=3)
    with pytest.warns(ResourceWarning, match="dropped without release"):
        await asyncio.create_task(_drop(rw.read()))
    async with rw.read():
        await asyncio.sleep(5)
    async with asyncio.timeout(3.1):
        await (await other.rwlock("k").write().acquire()).release()


async def _drop(read: ReadLock) -> None:
    await read.acquire()


async def test_a_refused_upgrade_leaves_no_line_in_use(locks: LockClient) -> None:
    """However it was asked for."""
    rw = locks.rwlock("k")
    async with rw.read():
        with pytest.raises(LockError):
            async with rw.write():
                pytest.fail("not reached")
        with pytest.raises(LockError):
            await rw.write().run(int)
    assert locks._engine is not None
    assert not locks._engine.lines_in_use()


# --- downgrade -----------------------------------------------------------------------------------------------


async def test_writing_is_over_the_moment_it_is_given_up(locks: LockClient) -> None:
    """Also before the server has heard of it: who only reads may not write again beside others' readers."""
    rw = locks.rwlock("k")
    writer, reader = await rw.write().acquire(), await rw.read().acquire()
    writer.release_nowait()
    with pytest.raises(LockError, match="release the read lock"):
        await rw.write().acquire()
    await reader.release()
    async with rw.write():
        pass


async def test_a_downgrade_on_its_way_is_passed_to_no_writer(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """Given up and released before it arrives: the next local writer does not get the place that readers enter."""
    rw = locks.rwlock("k", ttl=3)
    hold = await rw.write().acquire()
    writer = asyncio.create_task(rw.write().acquire())
    reader = asyncio.create_task(other.rwlock("k").read().acquire())
    await settle()
    late = faults.hold_back("change")
    downgrade = asyncio.create_task(hold.downgrade())
    await settle()
    downgrade.cancel()
    await asyncio.wait({downgrade})
    await hold.release()
    late.deliver()
    read = await reader
    assert await _waits(writer)
    await read.release()
    await (await writer).release()


@pytest.mark.parametrize("lose", ["drop_reply", "drop_request"])
async def test_a_downgrade_is_repeated_until_it_is_answered(
    locks: LockClient, other: LockClient, faults: Faults, lose: str
) -> None:
    """By an explicit call, and by releasing the write hold first; the request or its answer was lost."""
    rw = locks.rwlock("k", ttl=3)
    for explicit in (True, False):
        writer, reader = await rw.write().acquire(), await rw.read().acquire()
        getattr(faults, lose)("change", times=3)
        await (writer.downgrade() if explicit else writer.release())
        await (await other.rwlock("k").read().acquire(1)).release()
        reader.check()
        await reader.release()
        if explicit:
            await writer.release()


async def test_a_downgrade_that_the_server_denies_is_a_loss(locks: LockClient, faults: Faults) -> None:
    """The ticket is not there any more: reading would be a lie as well."""
    hold = await locks.rwlock("k").write().acquire()
    faults.calls = "drop"
    faults.lose(hold)
    with pytest.raises(LockLostError):
        await hold.downgrade()


async def test_local_readers_enter_a_downgraded_place_without_a_round_trip(locks: LockClient, faults: Faults) -> None:
    """It is theirs too, also while the server has not heard of it."""
    rw = locks.rwlock("k", ttl=3)
    async with rw.write() as hold:
        faults.go_down()
        downgrade = asyncio.create_task(hold.downgrade())
        await settle()
        reader = await asyncio.create_task(rw.read().try_acquire())
        assert reader is not None
        await reader.release()
        faults.come_back()
        await downgrade


async def test_a_child_that_reads_does_not_keep_its_parent_writing(locks: LockClient, other: LockClient) -> None:
    """Re-entered through the read hold it reads; through the write hold it would write."""
    rw, leave = locks.rwlock("k"), asyncio.Event()

    async def child() -> None:
        async with reader.reenter():
            await leave.wait()

    writer, reader = await rw.write().acquire(), await rw.read().acquire()
    task = asyncio.create_task(child())
    await settle()
    await writer.release()
    async with asyncio.timeout(1), other.rwlock("k").read():
        pass
    leave.set()
    await task
    await reader.release()


async def test_a_lost_downgraded_place_cancels_everybody_in_it(locks: LockClient, faults: Faults, body: Body) -> None:
    """The writer that reads on, and a reader that came later, each once."""
    rw, second = locks.rwlock("k"), Body()

    async def read() -> None:
        async with rw.read():
            await second.stay()

    with pytest.raises(LockLostError):
        async with rw.write() as hold:
            await hold.downgrade()
            reader = asyncio.create_task(read())
            await second.inside.wait()
            faults.lose(hold)
            await body.stay()
    with pytest.raises(LockLostError):
        await reader
    assert (body.cancels, second.cancels) == (1, 1)


async def test_fair_writers_downgrade_too(locks: LockClient, other: LockClient) -> None:
    """Each with a ticket of its own."""
    async with locks.rwlock("k", fair=True).write() as hold:
        await hold.downgrade()
        async with other.rwlock("k", fair=True).read(), locks.rwlock("k", fair=True).read() as again:
            assert again.fence == hold.fence
    async with other.rwlock("k").write():
        pass


async def test_a_reader_whose_time_is_over_stays_quiet_after_a_reconnect(locks: LockClient, faults: Faults) -> None:
    """Nobody inside its place has a limit any more; the place is looked after all the same."""
    hold = await locks.rwlock("k", max_hold=1, on_lost="flag").read().acquire()
    await asyncio.sleep(2)
    assert hold.lost
    faults.go_down()
    await asyncio.sleep(1)
    sent = len(faults.sent)
    faults.come_back()
    await asyncio.sleep(1)
    assert "renew" in faults.sent[sent:]
    with pytest.raises(LockLostError):
        await hold.release()
