"""The multi-lock: its order, what may not stand together, its hold's face, and losses."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import aiodlock
from aiodlock import (
    ConfigurationError,
    LockClient,
    LockError,
    LockLostError,
    MultiLock,
    NotHeldError,
    TooManyWaitersError,
)
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import Faults, LoopClock, settle
from tests.unit.core.body import Body, assert_unharmed


def of(client: LockClient, keys: str) -> MultiLock:
    return client.multi(*(client.lock(key) for key in keys))


async def _keys(client: LockClient) -> list[str]:
    return sorted([row.key async for row in client.inspect()])


# --- members -------------------------------------------------------------------------------------------------


async def test_members_have_one_order(locks: LockClient, other: LockClient) -> None:
    """By the bytes of the key, then kind, then server, whatever order was asked."""
    async with aiodlock.connect("memory://elsewhere") as elsewhere:
        members = [
            locks.lock("é"),
            elsewhere.lock("b"),
            locks.lock("b"),
            locks.semaphore("b", permits=1),
            locks.lock("Z"),
            locks.rwlock("b").read(),
        ]
        expected = [4, 1, 2, 5, 3, 0]
        assert locks.multi(*members).members == tuple(members[n] for n in expected)
        assert other.multi(*reversed(members)).members == tuple(members[n] for n in expected)


async def test_equal_members_become_one(locks: LockClient) -> None:
    """Locks are entered once, permits of a semaphore are added up; a multi-lock brings its members."""
    nested = locks.multi(locks.lock("a"), of(locks, "ab"), locks.semaphore("s", permits=3))
    multi = locks.multi(nested, locks.semaphore("s", permits=3), locks.semaphore("s", permits=3))
    assert [member.key for member in multi.members] == ["a", "b", "s"]
    async with multi as hold:
        assert [row.weight async for row in locks.inspect("s")] == [3]
        assert len(hold.holds) == 3


async def test_what_would_wait_for_itself_is_refused(locks: LockClient, other: LockClient) -> None:
    """Read and write of one key, one line with two policies or sizes, or through two clients."""
    rw = locks.rwlock("k")
    for members in (
        (rw.read(), rw.write()),
        (locks.lock("k"), locks.lock("k", ttl=5)),
        (locks.lock("k"), other.lock("k")),
        (locks.semaphore("k", permits=1), locks.semaphore("k", permits=2)),
        (locks.semaphore("k", permits=2), other.semaphore("k", permits=2)),
    ):
        with pytest.raises(ConfigurationError, match="stand in one line"):
            locks.multi(*members)


def test_clients_of_one_server_are_known_to_be_so() -> None:
    """Also where it was made by hand: their order has to be the same, and one line through two of them is a tie."""
    server = MemoryServer()
    one, two = [LockClient(MemoryBackend(server=server)) for _ in range(2)]
    with pytest.raises(ConfigurationError, match="stand in one line"):
        one.multi(one.lock("k"), two.lock("k"))
    assert LockClient(MemoryBackend()).backend.address != LockClient(MemoryBackend()).backend.address


async def test_only_locks_can_be_members(locks: LockClient) -> None:
    """And there has to be one; a time to wait is a time."""
    for members in ((), (locks.rwlock("k"),), ("k",), (locks.segmented("k", segments=2).any(),)):
        with pytest.raises(ConfigurationError):
            locks.multi(*members)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        locks.multi(locks.lock("k"), wait=-1)


async def test_nothing_is_left_when_the_last_member_fails(locks: LockClient) -> None:
    """Whatever error it is."""
    async with aiodlock.connect("memory://", clock=LoopClock(), max_waiters=1) as full:
        async with full.lock("y"):
            waiter = asyncio.create_task(full.lock("y").acquire())
            await settle()
            with pytest.raises(TooManyWaitersError):
                await locks.multi(locks.lock("a"), locks.lock("b"), full.lock("z")).acquire()
            assert await _keys(locks) == []
        await (await waiter).release()


async def test_a_member_lost_while_a_later_one_is_waited_for_is_acquired_again(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """All or nothing, also in time: nobody gets a hold of which a part is lost already."""
    blocker = await other.lock("b").acquire()
    multi = of(locks, "ab")
    task = asyncio.create_task(multi.acquire())
    await settle()
    assert await other.lock("a").force_release() == 1
    await settle()
    await blocker.release()
    hold = await task
    hold.check()
    assert await _keys(locks) == ["a", "b"]
    await hold.release()


async def test_one_deadline_for_all(locks: LockClient, other: LockClient) -> None:
    """What the first one took is not there for the second; the error tells the whole time."""
    first, second = await other.lock("a").acquire(), await other.lock("b").acquire()
    asyncio.get_running_loop().call_later(0.6, first.release_nowait)
    began = asyncio.get_running_loop().time()
    with pytest.raises(aiodlock.AcquireTimeoutError) as raised:
        async with locks.multi(locks.lock("a"), locks.lock("b"), wait=1):
            pytest.fail("not reached")
    assert asyncio.get_running_loop().time() - began == pytest.approx(1)
    assert (raised.value.key, raised.value.waited, raised.value.holder) == ("b", 1, "web-2")
    assert await _keys(locks) == ["b"]
    await second.release()


@pytest.mark.parametrize("wait", [None, 10])
async def test_a_member_may_give_up_before(locks: LockClient, other: LockClient, wait: float | None) -> None:
    """It has tries of its own: the error tells how long it was waited for, not for how long it might have been."""
    retrying = locks.lock("b", waiting=aiodlock.Retry(times=3, interval=1))
    async with other.lock("b"):
        with pytest.raises(aiodlock.AcquireTimeoutError, match=r"not acquired within 2\.00s, held by web-2"):
            await locks.multi(locks.lock("a"), retrying, wait=wait).acquire()


@pytest.mark.parametrize("steps", range(14))
async def test_cancelled_at_any_step_it_leaves_nothing(locks: LockClient, other: LockClient, steps: int) -> None:
    """Some members held, one waited for, one just granted."""
    blocker = await other.lock("b").acquire()
    task = asyncio.create_task(of(locks, "abc").acquire())
    asyncio.get_running_loop().call_later(0.1, blocker.release_nowait)
    await asyncio.sleep(0.1)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        await task.result().release()
    await settle()
    assert await _keys(locks) == []


# --- order against deadlock ----------------------------------------------------------------------------------


async def test_a_later_member_that_is_held_is_an_error(locks: LockClient) -> None:
    """It names both and what to do; asked for together with the earlier ones held, it enters again."""
    multi = of(locks, "abc")
    async with locks.lock("b"):
        with pytest.raises(LockError, match=r"holds 'b' and asks for 'a'.*ask for both at once"):
            await multi.acquire()
    async with of(locks, "ab"), multi as hold:
        assert len(hold.holds) == 3
    async with locks.lock("x"), multi:
        pass  # a later key that is no member


async def test_a_semaphore_that_is_held_counts_as_a_later_member(locks: LockClient) -> None:
    """Its permits are never entered again; one of another task is no matter."""
    semaphore = locks.semaphore("b", permits=2)
    multi = locks.multi(locks.lock("a"), semaphore)
    async with semaphore:
        with pytest.raises(LockError, match="holds 'b' and asks for 'a'"):
            await multi.acquire()
        hold = await asyncio.create_task(multi.acquire())
        hold.release_nowait()
    async with locks.semaphore("b", permits=2), locks.multi(semaphore, locks.lock("c")):
        pass  # nothing earlier is waited for


async def test_a_read_lock_does_not_become_a_write_lock(locks: LockClient) -> None:
    """The upgrade is refused as always; a writer may read by a multi-lock."""
    rw = locks.rwlock("a")
    async with rw.read():
        with pytest.raises(LockError, match="release the read lock"):
            await locks.multi(rw.write(), locks.lock("b")).acquire()
    async with rw.write() as writer, locks.multi(rw.read(), locks.lock("b")) as hold:
        assert hold.holds[0].fence == writer.fence


# --- the hold ------------------------------------------------------------------------------------------------


async def test_the_hold_has_the_face_of_a_hold(locks: LockClient, other: LockClient) -> None:
    """Everything but a fence."""
    async with locks.multi(locks.lock("a", ttl=10), other.lock("b", ttl=20)) as hold:
        assert (hold.key, hold.owner) == ("a + b", "web-1 + web-2")
        assert abs((datetime.now(UTC) - hold.acquired_at).total_seconds()) < 1
        assert 9 < hold.remaining < 10
        assert (hold.lost, hold.revoked, hold.is_released) == (False, False, False)
        await hold.extend(60)
        assert hold.remaining > 59
        assert await locks.lock("b").revoke("please") == 1
        await settle()
        assert hold.revoked
        assert not hasattr(hold, "fence")
    assert hold.is_released
    assert hold.remaining == 0


async def test_a_child_task_can_be_inside_too(locks: LockClient) -> None:
    """The last one out gives all of them up."""
    inside, leave = asyncio.Event(), asyncio.Event()

    async def child() -> None:
        async with hold.reenter(), locks.lock("a"):
            inside.set()
            await leave.wait()

    async with of(locks, "ab") as hold:
        task = asyncio.create_task(child())
        await inside.wait()
    assert await _keys(locks) == ["a", "b"]
    leave.set()
    await task
    assert await _keys(locks) == []
    with pytest.raises(NotHeldError):
        async with hold.reenter():
            pytest.fail("not reached")


async def test_releasing_it_twice_is_an_error_and_inside_its_block_it_is_not(locks: LockClient) -> None:
    """As with any hold."""
    multi = of(locks, "ab")
    async with multi as hold:
        await hold.release()
        assert await _keys(locks) == []
    for again in (hold.release_nowait, hold.check):
        with pytest.raises(NotHeldError):
            again()
    with pytest.raises(NotHeldError):
        await hold.release()
    held = await multi.acquire()
    await held.holds[0].release()
    with pytest.raises(NotHeldError):
        await held.release()
    assert await _keys(locks) == []


async def test_dead_servers_are_waited_for_together(locks: LockClient, faults: Faults) -> None:
    """A second in all, not for each; what is on another server is free at once."""
    async with aiodlock.connect("memory://", clock=LoopClock()) as elsewhere:
        for leave in ("block", "release"):
            hold = await locks.multi(*(locks.lock(key) for key in "abc"), elsewhere.lock("0")).acquire()
            faults.go_down()
            began = asyncio.get_running_loop().time()
            task = asyncio.create_task(hold.release() if leave == "release" else _leave(hold))
            await settle()
            assert not await elsewhere.lock("0").locked()
            await task
            assert asyncio.get_running_loop().time() - began == pytest.approx(1)
            faults.come_back()
            await asyncio.sleep(6)
            assert await _keys(locks) == []


async def _leave(hold: aiodlock.MultiHold) -> None:
    async with hold:
        pass


async def test_a_hold_that_is_dropped_is_noticed(locks: LockClient) -> None:
    """No cycle keeps it."""
    with pytest.warns(ResourceWarning, match="dropped without release"):
        await asyncio.create_task(_drop(of(locks, "a")))


async def _drop(multi: MultiLock) -> None:
    await multi.acquire()


# --- loss ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["a", "b", "ab"])
async def test_a_loss_cancels_the_block_once_and_names_the_member(
    locks: LockClient, faults: Faults, body: Body, lost: str
) -> None:
    """At one time; where several are lost the outermost is named."""
    with pytest.raises(LockLostError) as raised:
        async with of(locks, "ab") as hold:
            for member in hold.holds:
                if member.key in lost:
                    faults.lose(member)
            await body.stay()
    assert raised.value.key == lost[0]
    assert body.cancels == 1
    assert await _keys(locks) == []
    await assert_unharmed()


async def test_a_second_loss_while_cleaning_up_cancels_no_more(locks: LockClient, faults: Faults, body: Body) -> None:
    """The body is told once, and may end in peace."""
    with pytest.raises(LockLostError):
        async with of(locks, "ab") as hold:
            asyncio.get_running_loop().call_later(0.5, faults.lose, hold.holds[1])
            faults.lose(hold.holds[0])
            await body.stay_on()
    assert body.cancels == 1
    await assert_unharmed()


async def test_every_task_inside_is_cancelled_once(locks: LockClient, faults: Faults) -> None:
    """Parent and child, each by the first loss."""
    parent, child = Body(), Body()

    async def work() -> None:
        async with hold.reenter():
            await child.stay_on()

    with pytest.raises(LockLostError):
        async with of(locks, "ab") as hold:
            task = asyncio.create_task(work())
            await child.inside.wait()
            asyncio.get_running_loop().call_later(0.5, faults.lose, hold.holds[1])
            faults.lose(hold.holds[0])
            await parent.stay_on()
    with pytest.raises(LockLostError):
        await task
    assert (parent.cancels, child.cancels) == (1, 1)


async def test_an_outer_cancel_wins_over_the_loss(locks: LockClient, faults: Faults, body: Body) -> None:
    """And the task is cancelled once more than it was."""

    async def work() -> None:
        async with of(locks, "ab") as hold:
            faults.lose(hold.holds[0])
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await body.stay()

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    assert task.cancelled()
    assert await _keys(locks) == []


async def test_an_error_of_the_body_is_not_masked(locks: LockClient, faults: Faults) -> None:
    """It gets a note for each lost member."""
    with pytest.raises(KeyError) as raised:
        async with of(locks, "ab") as hold:
            faults.lose(hold.holds[1])
            await hold.wait_lost()
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                raise KeyError from None
    assert "'b' was lost" in "".join(raised.value.__notes__)


async def test_a_function_of_the_user_hears_of_each_loss(locks: LockClient, faults: Faults) -> None:
    """With on_lost as it was given, nothing is cancelled."""
    heard: list[str] = []
    members = [locks.lock(key, on_lost=lambda hold: heard.append(hold.key)) for key in "ab"]
    with pytest.raises(LockLostError):
        async with locks.multi(*members) as hold:
            for member in hold.holds:
                faults.lose(member)
            await hold.wait_lost()
            await asyncio.sleep(1)
    assert heard == ["a", "b"]


async def test_entering_what_is_lost_already_gives_the_rest_back(locks: LockClient, faults: Faults) -> None:
    """The block does not begin."""
    hold = await of(locks, "ab").acquire()
    faults.lose(hold.holds[0])
    await hold.wait_lost()
    with pytest.raises(LockLostError):
        async with hold:
            pytest.fail("not reached")
    await settle()
    assert await _keys(locks) == []


async def test_wait_lost_leaves_no_watcher(locks: LockClient) -> None:
    """Cancelled, it is as if it had not been called."""
    hold = await of(locks, "ab").acquire()
    watch = asyncio.create_task(hold.wait_lost())
    await settle()
    watch.cancel()
    await asyncio.wait({watch})
    assert [member._own._watchers for member in hold.holds] == [(), ()]
    await hold.release()
