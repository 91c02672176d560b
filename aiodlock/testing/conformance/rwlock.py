"""The read-write lock: many readers or one writer, in one line."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from aiodlock.client import LockClient
from aiodlock.errors import AcquireTimeoutError, LockError, LockLostError
from aiodlock.locks.rwlock import ReadWriteLock
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_dead_reader_costs_at_most_its_lease",
    "a_downgrade_outlasts_an_outage",
    "a_downgrade_that_is_never_heard_of_is_a_loss",
    "a_downgrade_wakes_waiting_readers_at_once",
    "a_downgrade_whose_answer_is_lost_is_done_once",
    "a_reader_over_its_max_hold_leaves_the_others_alone",
    "a_writer_may_read_and_goes_on_reading",
    "a_writer_that_gives_up_lets_the_readers_behind_it_in",
    "an_upgrade_is_refused_at_once",
    "fair_readers_have_a_lease_each",
    "new_readers_stand_behind_a_waiting_writer",
    "readers_do_not_starve_a_writer",
    "readers_of_a_lost_ticket_are_all_lost",
    "readers_of_all_clients_are_inside_together",
    "readers_share_and_a_writer_is_alone",
]


@dataclass(slots=True)
class _Room:
    """Who is inside; entering it breaks where the rule is broken."""

    readers: int = 0
    writers: int = 0
    most: int = 0

    async def read(self, lock: ReadWriteLock, seconds: float) -> None:
        async with lock.read():
            self.readers += 1
            self.most = max(self.most, self.readers)
            assert not self.writers, "a writer is inside with readers"
            await asyncio.sleep(seconds)
            self.readers -= 1

    async def write(self, lock: ReadWriteLock, seconds: float) -> None:
        async with lock.write():
            self.writers += 1
            assert (self.writers, self.readers) == (1, 0), "a writer is not alone"
            await asyncio.sleep(seconds)
            self.writers -= 1


async def _sides(world: World) -> tuple[ReadWriteLock, ReadWriteLock]:
    """Return the lock as two clients have it."""
    mine, other = await world.clients(2)
    return mine.rwlock(world.key(), ttl=world.ttl), other.rwlock(world.key(), ttl=world.ttl)


@check(35)
async def readers_share_and_a_writer_is_alone(world: World) -> None:
    """Whoever comes from whichever client: readers meet inside, writers meet nobody."""
    room, chance = _Room(), random.Random(35)
    locks = [client.rwlock(world.key()) for client in await world.clients(3)]

    async def visit(lock: ReadWriteLock) -> None:
        for _ in range(4):
            await asyncio.sleep(chance.random() * 0.02)
            stay = room.write if chance.random() < 0.2 else room.read
            await stay(lock, chance.random() * 0.01)

    await asyncio.gather(*(visit(lock) for lock in locks for _ in range(5)))
    assert room.most > 1


@check(35)
async def readers_of_all_clients_are_inside_together(world: World) -> None:
    """Nobody leaves before everybody is in; each client has one ticket."""
    clients, everybody, inside = await world.clients(3), asyncio.Barrier(12), list[str]()

    async def read(client: LockClient) -> None:
        async with client.rwlock(world.key()).read():
            if await everybody.wait() == 0:
                inside.extend(sorted(row.owner for row in await world.rows() if row.inside))
            await everybody.wait()

    await asyncio.gather(*(read(client) for client in clients for _ in range(4)))
    assert inside == [client.name for client in clients]


@check()
async def new_readers_stand_behind_a_waiting_writer(world: World) -> None:
    """Also those of the client that reads: its ticket takes nobody else in, except who is in already."""
    mine, other = await _sides(world)
    reader = await mine.read().acquire()
    writer = world.start(other.write().acquire())
    await world.until_waiting(1)
    later = world.start(mine.read().acquire())
    await world.until_waiting(2)
    async with mine.read() as again:
        assert again.fence == reader.fence
    await reader.release()
    hold = await writer
    assert not later.done()
    await hold.release()
    assert (await later).fence > hold.fence > reader.fence
    await later.result().release()


@check(40)
async def readers_do_not_starve_a_writer(world: World) -> None:
    """Two clients read without a gap; a writer of either, or of a third, is inside within about one reading."""

    async def read_on(lock: ReadWriteLock, delay: float) -> None:
        await asyncio.sleep(delay)
        while True:
            async with lock.read():
                await asyncio.sleep(length)

    length = 0.1 * world.ttl
    locks = [client.rwlock(world.key(), ttl=world.ttl) for client in await world.clients(3)]
    for lock in locks[:2]:
        for number in range(3):
            world.start(read_on(lock, number * length / 3))
    await world.sleep(2 * length)
    for lock in locks:
        began = world.now
        async with lock.write():
            assert world.now - began <= 2 * length + 2 * world.soon(world.ttl)


@check(37)
async def an_upgrade_is_refused_at_once(world: World) -> None:
    """A reader that asks to write gets an error instead of waiting for itself, and goes on reading."""
    lock, other = await _sides(world)
    async with lock.read() as reader:
        for ask in (lock.write().acquire, lock.write().try_acquire, lock.write().__aenter__):
            with raises(LockError) as raised:
                await ask()
            assert "release the read lock" in str(raised.error)
        with raises(LockError):
            await lock.write().run(int)
        reader.check()
        assert len(await world.rows()) == 1
    async with other.write():
        pass


@check(36)
async def a_writer_may_read_and_goes_on_reading(world: World) -> None:
    """Reading inside writing is no new ticket; writing released first lets other readers in, but no writer."""
    mine, other = await _sides(world)
    async with mine.write() as writer, mine.write() as again:
        assert again.fence == writer.fence
        reader = await mine.read().acquire()
        assert reader.fence == writer.fence
        assert await other.read().try_acquire() is None
    async with other.read():
        reader.check()
        with raises(LockError):
            await mine.write().acquire()
        assert await other.read().locked()
    writer_elsewhere = world.start(other.write().acquire())
    await world.until_waiting(1)
    await reader.release()
    await (await writer_elsewhere).release()


@check(36)
async def a_downgrade_wakes_waiting_readers_at_once(world: World) -> None:
    """Of this client and of others, but not who stands behind a writer; a second time it does nothing."""
    mine, other, third = [client.rwlock(world.key()) for client in await world.clients(3)]
    async with mine.write() as hold:
        reader = world.start(other.read().acquire())
        await world.until_waiting(1)
        local = world.start(mine.read().acquire())
        await world.until_waiting(2)
        writer = world.start(third.write().acquire())
        await world.until_waiting(3)
        late = world.start(third.read().acquire())
        await world.until_waiting(4)
        began = world.now
        await hold.downgrade()
        await hold.downgrade()
        readers = [await reader, await local]
        assert world.now - began <= world.soon()
        assert not writer.done()
        assert not late.done()
        with raises(LockError):
            await mine.write().acquire()
    for read in readers:
        await read.release()
    await (await writer).release()
    await (await late).release()


@check(39)
async def fair_readers_have_a_lease_each(world: World) -> None:
    """The end of one reader's lease ends no other's; a writer waits for the last of them."""
    mine, other = await world.clients(2)
    both = asyncio.Barrier(2)

    async def read_shortly() -> None:
        async with mine.rwlock(world.key(), ttl=world.ttl, renew=False).read():
            await both.wait()
            await world.sleep(100 * world.ttl)

    short = world.start(read_shortly())
    async with mine.rwlock(world.key(), ttl=world.ttl, fair=True).read() as long:
        await both.wait()
        assert len(await world.rows()) == 2
        writer = world.start(other.rwlock(world.key()).write().acquire())
        await world.until_waiting(1)
        with raises(LockLostError):
            await short
        await world.sleep(0.5 * world.ttl)
        long.check()
        assert not writer.done()
    await (await writer).release()


@check(38, needs="faults")
async def a_dead_reader_costs_at_most_its_lease(world: World) -> None:
    """A writer elsewhere is inside within one ttl."""
    dead, other = await world.clients(2)
    hold = await dead.rwlock(world.key(), ttl=world.ttl).read().acquire()
    await world.sleep(0.5 * world.ttl)
    began = world.now
    await world.crash(dead)
    async with other.rwlock(world.key()).write():
        assert world.now - began <= world.ttl + world.slack
        assert hold.lost


@check()
async def readers_of_a_lost_ticket_are_all_lost(world: World) -> None:
    """Each of their blocks is cancelled, and a writer gets in."""
    mine, other = await _sides(world)
    inside = asyncio.Barrier(4)

    async def read() -> None:
        async with mine.read():
            await inside.wait()
            await world.sleep(100 * world.ttl)

    readers = [world.start(read()) for _ in range(3)]
    await inside.wait()
    assert await other.read().force_release() == 1
    for reader in readers:
        with raises(LockLostError):
            await reader
    async with other.write():
        pass


@check()
async def a_reader_over_its_max_hold_leaves_the_others_alone(world: World) -> None:
    """Its own block is cancelled in time; who shares the ticket reads on, and a writer waits for them only."""
    client, other = await world.clients(2)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def read_on() -> None:
        async with client.rwlock(world.key(), ttl=world.ttl).read() as hold:
            inside.set()
            await leave.wait()
            hold.check()

    reader = world.start(read_on())
    await inside.wait()
    began = world.now
    with raises(LockLostError):
        async with client.rwlock(world.key(), ttl=world.ttl, max_hold=1.2 * world.ttl).read():
            assert len(await world.rows()) == 1
            await world.sleep(100 * world.ttl)
    assert world.now - began <= 1.2 * world.ttl + world.slack
    writer = world.start(other.rwlock(world.key()).write().acquire())
    await world.until_waiting(1)
    leave.set()
    await reader
    await (await writer).release()


@check()
async def a_writer_that_gives_up_lets_the_readers_behind_it_in(world: World) -> None:
    """Cancelled or out of time: readers behind it do not wait for a reader before it."""
    mine, other = await _sides(world)
    async with mine.read():
        for give_up in ("cancel", "time"):
            limit = 0.2 * world.ttl if give_up == "time" else None
            writer = world.start(other.write().acquire(limit))
            await world.until_waiting(1)
            reader = world.start(mine.read().acquire())
            await world.until_waiting(2)
            if give_up == "cancel":
                writer.cancel()
                await asyncio.wait({writer})
            else:
                with raises(AcquireTimeoutError):
                    await writer
            began = world.now
            await (await reader).release()
            assert world.now - began <= world.soon(world.ttl)


@check(needs="faults")
async def a_downgrade_outlasts_an_outage(world: World) -> None:
    """It is told to the server when that is back; until then nobody writes, and the holder does not either."""
    mine, other = await world.clients(2)
    lock = mine.rwlock(world.key(), ttl=4 * world.ttl)
    hold = await lock.write().acquire()
    world.trouble(mine).go_down()
    downgrade = world.start(hold.downgrade())
    await world.sleep(0.3 * world.ttl)
    assert not downgrade.done()
    with raises(LockError):
        await lock.write().acquire()
    assert await other.rwlock(world.key()).read().try_acquire() is None
    world.trouble(mine).come_back()
    await downgrade
    async with other.rwlock(world.key()).read():
        hold.check()
    await hold.release()


@check(needs="faults")
async def a_downgrade_whose_answer_is_lost_is_done_once(world: World) -> None:
    """The holder reads on, beside others, and keeps its fence; one release frees the lock."""
    mine, other = await world.clients(2)
    hold = await mine.rwlock(world.key(), ttl=4 * world.ttl).write().acquire()
    fence = hold.fence
    world.trouble(mine).drop_reply("change")
    await hold.downgrade()
    async with other.rwlock(world.key(), ttl=world.ttl).read():
        hold.check()
        assert hold.fence == fence
    await hold.release()
    await world.until(lambda: _nothing_left(world), within=world.slack)


async def _nothing_left(world: World) -> bool:
    return not await world.rows()


@check(needs="faults")
async def a_downgrade_that_is_never_heard_of_is_a_loss(world: World) -> None:
    """When the lease has ended without an answer."""
    client = await world.client()
    hold = await client.rwlock(world.key(), ttl=world.ttl).write().acquire()
    world.trouble(client).go_down()
    with raises(LockLostError):
        await hold.downgrade()
    world.trouble(client).come_back()
