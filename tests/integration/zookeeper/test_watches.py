"""What the server is asked to tell: a waiter watches the node before its own, and whoever has gone nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from aiodlock import Hold, LockClient
from aiodlock.backends.zookeeper import lookout
from aiodlock.testing.servers import ZooKeeperServer
from tests.acceptance import acceptance
from tests.integration.zookeeper.support import client, give_up, in_line, nodes, session_of, until

Enter: TypeAlias = Callable[[LockClient], Coroutine[Any, Any, Hold]]


def watched(server: ZooKeeperServer, line: str) -> dict[int, set[str]]:
    """Return which nodes of *line*, a kind and a key, each session watches."""
    found: dict[int, set[str]] = {}
    session = 0
    for told in map(str.strip, server.ask("wchc").splitlines()):
        if told.startswith("0x"):
            session = int(told, 16)
        elif told.startswith(f"/aiodlock/{line}/"):
            found.setdefault(session, set()).add(told.rpartition("/")[2])
    return found


async def stand_in_line(
    server: ZooKeeperServer, line: str, *enter: Enter, before: Sequence[int | None], within: float = 8.0
) -> None:
    """Let a client each stand in one line, and look at what they watch; then let them through.

    *before*: whom each of them watches besides itself, None for nobody.
    """
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(server.url, session=30.0)) for _ in enter]
        entering = list[asyncio.Task[Hold]]()
        stack.push_async_callback(give_up, entering)
        for number, (one, acquire) in enumerate(zip(clients, enter, strict=True), 1):
            entering.append(asyncio.create_task(acquire(one)))
            await in_line(clients[0], line, number)
        names = sorted(await nodes(clients[0], line), key=lambda name: name.rpartition("__")[2])
        wanted = {
            session_of(one).id: {names[n], names[n if watched is None else watched]}
            for n, (one, watched) in enumerate(zip(clients, before, strict=True))
        }
        await until(lambda: watched(server, line) == wanted, within=within)
        for task in entering:
            await (await task).release()
        await until(lambda: not watched(server, line), within=8.0)


@acceptance(59)
async def test_a_waiter_watches_the_node_before_its_own(server: ZooKeeperServer, key: str) -> None:
    """And its own, as everybody does, to notice that it was deleted; when all have gone nothing is watched."""
    await stand_in_line(server, f"lock/{key}", *[lambda one: one.lock(key).acquire()] * 4, before=(None, 0, 1, 2))


async def test_readers_watch_the_last_writer_and_a_writer_the_one_before_it(server: ZooKeeperServer, key: str) -> None:
    """A reader need not hear of the readers before it: they enter together."""

    def read(one: LockClient) -> Coroutine[Any, Any, Hold]:
        return one.rwlock(key).read().acquire()

    def write(one: LockClient) -> Coroutine[Any, Any, Hold]:
        return one.rwlock(key).write().acquire()

    await stand_in_line(server, f"rwlock/{key}", write, read, read, write, read, read, before=(None, 0, 0, 2, 3, 3))


async def test_of_those_who_wait_for_a_permit_only_the_first_watches_them_all(
    server: ZooKeeperServer, key: str
) -> None:
    """By the children of the line, not node by node; each of the others watches the one before it."""
    enter = [lambda one: one.semaphore(key, permits=2).acquire()] * 5
    await stand_in_line(server, f"semaphore/{key}", *enter, before=(None, None, None, 2, 3))


async def test_that_finds_a_herd(server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: everybody watches the one who is inside."""
    monkeypatch.setattr(lookout, "blocker", lambda ahead, weight, *, size: ahead[0])
    with pytest.raises(TimeoutError):
        enter = [lambda one: one.lock(key).acquire()] * 4
        await stand_in_line(server, f"lock/{key}", *enter, before=(None, 0, 1, 2), within=3.0)
