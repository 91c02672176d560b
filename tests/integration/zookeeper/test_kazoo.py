"""kazoo in the same line: another implementation sees what we see, and excludes us as we exclude it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from aiodlock.testing.history import Event, Recorder, check_exclusion, stays
from aiodlock.testing.servers import ZooKeeperServer
from tests.integration.zookeeper.support import client, in_line


@pytest.fixture
def kazoo(server: ZooKeeperServer) -> Iterator[KazooClient]:
    theirs = KazooClient(hosts=f"127.0.0.1:{server.port}", timeout=10.0)
    theirs.start()
    yield theirs
    theirs.stop()
    theirs.close()


async def test_kazoo_sees_who_stands_in_our_line(server: ZooKeeperServer, kazoo: KazooClient, key: str) -> None:
    """In order, by their names; each node is ephemeral, of the session of its client."""
    async with client(server.url, name="one") as mine, client(server.url, name="two") as other:
        async with mine.lock(key):
            waiting = asyncio.create_task(other.lock(key).acquire())
            await in_line(mine, key, 2)
            path = f"/aiodlock/lock/{key}"
            contenders = await asyncio.to_thread(kazoo.Lock(path, "me").contenders)
            names = await asyncio.to_thread(kazoo.get_children, path)
            owners = [(await asyncio.to_thread(kazoo.get, f"{path}/{name}"))[1].ephemeralOwner for name in names]
            assert [b'"owner":"one"' in c.encode() for c in contenders] == [True, False]
            assert set(owners) == {mine.backend._session.id, other.backend._session.id}  # type: ignore[attr-defined]
        await (await waiting).release()


async def test_kazoo_and_we_exclude_each_other(server: ZooKeeperServer, kazoo: KazooClient, key: str) -> None:
    """Taking turns in one line, each wakes the other."""
    events: list[Event] = []
    path = f"/aiodlock/lock/{key}"

    def visit() -> None:
        record = Recorder(events.append, who="kazoo")
        for number in range(20):
            asked = record.now()
            with kazoo.Lock(path, "theirs"):
                record("inside", key=key, id=number, asked=asked, valid_until=record.now() + 5, fence=None)
                threading.Event().wait(0.002)
                record("left", key=key, id=number)

    await asyncio.to_thread(kazoo.ensure_path, path)  # it does not expect that a line of ours is removed when empty
    async with client(server.url, session=10.0, name="ours") as mine:
        record, theirs = Recorder(events.append, who="ours"), asyncio.create_task(asyncio.to_thread(visit))
        for number in range(20):
            asked = record.now()
            async with mine.lock(key, wait=10.0) as hold:
                record("inside", key=key, id=number, asked=asked, valid_until=record.now() + 5, fence=hold.fence)
                await asyncio.sleep(0.002)
                record("left", key=key, id=number)
        await theirs
        assert await mine.lock(key).holder() is None
    history = stays(events)
    assert len(history) == 40
    assert check_exclusion(history) == []
    assert [stay.who for stay in history] != sorted(stay.who for stay in history)


async def test_their_holder_is_told_by_its_name(server: ZooKeeperServer, kazoo: KazooClient, key: str) -> None:
    """And is not overtaken by a try."""
    async with client(server.url) as mine:
        lock = kazoo.Lock(f"/aiodlock/lock/{key}", "vm-7")
        await asyncio.to_thread(lock.acquire)
        assert await mine.lock(key).try_acquire() is None
        assert await mine.lock(key).holder() == "vm-7"
        await asyncio.to_thread(lock.release)
        async with mine.lock(key):
            pass
