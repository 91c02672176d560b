"""The line: who is next, how it is noticed, and what waiting costs others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from aiodlock.client import LockClient
from aiodlock.clock import Clock, SystemClock, Timer
from aiodlock.errors import AcquireTimeoutError, UnsupportedError
from aiodlock.policy import Poll, Retry
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_dead_waiter_costs_at_most_its_waiting_life",
    "a_fair_lock_is_entered_in_the_order_of_asking",
    "a_lingering_ticket_gives_way",
    "a_release_right_after_the_join_is_not_missed",
    "clients_clocks_decide_nothing",
    "many_local_waiters_are_one_ticket",
    "nobody_overtakes",
    "polling_stands_in_line",
    "retrying_never_stands_in_line",
    "two_busy_clients_take_turns",
]


@check(30)
async def a_fair_lock_is_entered_in_the_order_of_asking(world: World) -> None:
    """Across clients, one by one."""

    async def enter(client: LockClient, number: int) -> None:
        async with client.lock(world.key(), fair=True):
            order.append(number)

    order: list[int] = []
    clients = await world.clients(3)
    async with clients[0].lock(world.key()):
        tasks = []
        for number in range(9):
            tasks.append(world.start(enter(clients[number % 3], number)))
            await world.until_waiting(number + 1)
    await asyncio.gather(*tasks)
    assert order == list(range(9))


@check()
async def nobody_overtakes(world: World) -> None:
    """Also an unfair lock is entered by whoever stands first; a try does not slip in between."""
    mine, other = await world.clients(2)
    hold = await mine.lock(world.key()).acquire()
    waiter = world.start(other.lock(world.key()).acquire())
    await world.until_waiting(1)
    await hold.release()
    assert await mine.lock(world.key()).try_acquire() is None
    await (await waiter).release()


@check(29)
async def many_local_waiters_are_one_ticket(world: World) -> None:
    """A hundred tasks of one client stand in line as one, and all get in, each with a larger fence."""

    async def enter() -> None:
        async with mine.lock(world.key()) as hold:
            fences.append(hold.fence)

    fences: list[int] = []
    mine, other = await world.clients(2)
    async with other.lock(world.key()):
        tasks = [world.start(enter()) for _ in range(100)]
        await world.until_waiting(1, within=5 * world.ttl)
        assert len(await world.rows()) == 2
    await asyncio.gather(*tasks)
    assert len(fences) == 100
    assert fences == sorted(set(fences))


@check()
async def two_busy_clients_take_turns(world: World) -> None:
    """Each hands the lock on among its own tasks for a batch only: the other is never shut out."""

    async def enter(client: LockClient) -> None:
        async with client.lock(world.key()):
            order.append(client.name)
            await asyncio.sleep(0.001)

    order: list[str] = []
    clients = await world.clients(2)
    await asyncio.gather(*(enter(client) for client in clients for _ in range(100)))
    turns = [len(list(turn)) for _, turn in itertools.groupby(order)]
    assert sum(turns) == 200
    assert max(turns) <= 60


@check(27)
async def a_release_right_after_the_join_is_not_missed(world: World) -> None:
    """Whatever the order of the two on the server, the waiter is inside at once."""
    mine, other = await world.clients(2)
    for steps in range(8):
        hold = await mine.lock(world.key()).acquire()
        waiter = world.start(other.lock(world.key()).acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        began = world.now
        hold.release_nowait()
        await (await waiter).release()
        assert world.now - began <= world.soon()


@check(31, needs="faults")
async def a_dead_waiter_costs_at_most_its_waiting_life(world: World) -> None:
    """The next one in line gets in when the dead one's short life is over, whatever its ttl."""
    mine, dead, other = await world.clients(3)
    hold = await mine.lock(world.key()).acquire()
    world.start(dead.lock(world.key(), ttl=world.ttl, fair=True).acquire())
    await world.until_waiting(1)
    waiter = world.start(other.lock(world.key(), ttl=world.ttl, fair=True).acquire())
    await world.until_waiting(2)
    await world.crash(dead)
    began = world.now
    await hold.release()
    await (await waiter).release()
    assert world.now - began <= world.ttl + world.slack


class _Shifted:
    """A client's clock that is wrong by so many seconds."""

    def __init__(self, clock: Clock, shift: float) -> None:
        self._clock, self._shift = clock, shift

    def now(self) -> float:
        return self._clock.now() + self._shift

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._clock.call_at(when - self._shift, callback)


@check(34)
async def clients_clocks_decide_nothing(world: World) -> None:
    """An hour ahead or behind: order, exclusion and leases are the server's."""
    clock = getattr(world.connect(), "_clock", None) or SystemClock()
    mine, early, late = [await world.client(clock=_Shifted(clock, shift)) for shift in (0.0, 3_600.0, -3_600.0)]
    fences = []
    for first, second in ((early, late), (late, early)):
        async with mine.lock(world.key(), ttl=world.ttl) as hold:
            fences.append(hold.fence)
            waiters = []
            for client in (first, second):
                waiters.append(world.start(client.lock(world.key(), ttl=world.ttl, fair=True).acquire()))
                await world.until_waiting(len(waiters))
            await world.sleep(1.2 * world.ttl)
            hold.check()
        for waiter in waiters:
            async with await waiter as next_:
                fences.append(next_.fence)
    assert fences == sorted(set(fences))


@check()
async def polling_stands_in_line(world: World) -> None:
    """Without push it looks: inside within about an interval of the release, and in its turn."""
    mine, other = await world.clients(2)
    waiting = Poll(interval=0.1 * world.ttl)
    hold = await mine.lock(world.key()).acquire()
    waiter = world.start(other.lock(world.key(), ttl=world.ttl, waiting=waiting).acquire())
    await world.until_waiting(1)
    await world.sleep(2 * world.ttl)
    await hold.release()
    released = world.now
    assert await mine.lock(world.key()).try_acquire() is None
    await (await waiter).release()
    assert world.now - released <= 0.11 * world.ttl + world.slack


@check()
async def retrying_never_stands_in_line(world: World) -> None:
    """It tries so many times, leaves nothing between its tries, and then gives up."""
    mine, other = await world.clients(2)
    lock = other.lock(world.key(), waiting=Retry(times=4, interval=0.1 * world.ttl))
    hold = await mine.lock(world.key()).acquire()
    began = world.now
    task = world.start(lock.acquire())
    await world.sleep(0.15 * world.ttl)
    assert [row.owner for row in await world.rows()] == [mine.name]
    with raises(AcquireTimeoutError):
        await task
    assert 0.29 * world.ttl <= world.now - began <= 0.3 * world.ttl + world.slack
    await hold.release()
    await (await lock.acquire()).release()


@check()
async def a_lingering_ticket_gives_way(world: World) -> None:
    """It is kept for the next local task, seen as taken by a try, and given up when somebody waits.

    Refused where nobody tells of that.
    """
    mine, other = await world.clients(2)
    if not world.capabilities.pushes:
        with raises(UnsupportedError):
            mine.lock(world.key(), linger=1.0)
        return
    lock = mine.lock(world.key(), ttl=world.ttl, linger=30 * world.ttl)
    async with lock:
        pass
    (kept,) = await world.rows()
    async with lock:
        assert [row.id for row in await world.rows()] == [kept.id]
    assert await other.lock(world.key()).try_acquire() is None
    async with other.lock(world.key(), ttl=world.ttl, wait=2 * world.soon(world.ttl)):
        assert [row.owner for row in await world.rows()] == [other.name]
