"""Test code that locks: time that moves by hand, and a network that fails when told. Always on memory://."""

import asyncio

import aiodlock
from aiodlock.testing import FakeClock, Faults, settle


async def import_orders(locks: aiodlock.LockClient, done: asyncio.Event) -> str:
    """The code under test: it must stop when its lock is gone."""
    try:
        async with locks.lock("import", ttl=30):
            await done.wait()
            return "finished"
    except aiodlock.LockLostError as error:
        return f"stopped: {error.reason}"


async def test_stops_when_the_server_is_gone() -> None:
    """Thirty seconds of silence take no time at all."""
    clock = FakeClock()
    async with aiodlock.connect("memory://", clock=clock) as locks:
        work = asyncio.create_task(import_orders(locks, asyncio.Event()))
        await settle()
        await clock.advance(300)  # renewed all the time
        assert not work.done()
        Faults(locks).go_down()
        await clock.advance(30)
        assert await work == "stopped: its lease ended before a renewal was confirmed"


async def test_a_lost_reply_leaves_nothing_behind() -> None:
    """The join is done, its answer is lost, and it is asked again."""
    done = asyncio.Event()
    done.set()
    async with aiodlock.connect("memory://") as locks:
        Faults(locks).drop_reply("join")
        assert await import_orders(locks, done) == "finished"
        assert not await locks.lock("import").locked()


async def main() -> None:  # pytest finds the tests by itself; this is for running the file
    for test in (test_stops_when_the_server_is_gone, test_a_lost_reply_leaves_nothing_behind):
        await test()
        print(f"{test.__name__}: passed")


if __name__ == "__main__":
    asyncio.run(main())
