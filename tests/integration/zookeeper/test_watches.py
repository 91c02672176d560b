"""What the server is asked to tell: a waiter watches the node before its own, and whoever has gone nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from aiodlock import Hold
from aiodlock.backends.zookeeper import lookout
from aiodlock.testing.servers import ZooKeeperServer
from tests.acceptance import acceptance
from tests.integration.zookeeper.support import client, give_up, in_line, nodes, session_of, until


def watched(server: ZooKeeperServer, key: str) -> dict[int, set[str]]:
    """Return which nodes in the line of *key* each session watches."""
    found: dict[int, set[str]] = {}
    session = 0
    for line in map(str.strip, server.ask("wchc").splitlines()):
        if line.startswith("0x"):
            session = int(line, 16)
        elif line.startswith(f"/aiodlock/lock/{key}/"):
            found.setdefault(session, set()).add(line.rpartition("/")[2])
    return found


async def stand_in_line(server: ZooKeeperServer, key: str) -> None:
    """Let four clients stand in one line, and look at what they watch; then let them through."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(server.url, session=30.0)) for _ in range(4)]
        entering = list[asyncio.Task[Hold]]()
        stack.push_async_callback(give_up, entering)
        for number, one in enumerate(clients, 1):
            entering.append(asyncio.create_task(one.lock(key).acquire()))
            await in_line(clients[0], key, number)
        names = sorted(await nodes(clients[0], key), key=lambda name: name.rpartition("__")[2])
        wanted = {session_of(one).id: {*names[max(0, n - 1) : n + 1]} for n, one in enumerate(clients)}
        await until(lambda: watched(server, key) == wanted, within=3.0)
        for task in entering:
            await (await task).release()
        await until(lambda: not watched(server, key), within=3.0)


@acceptance(59)
async def test_a_waiter_watches_the_node_before_its_own(server: ZooKeeperServer, key: str) -> None:
    """And its own, as everybody does, to notice that it was deleted; when all have gone nothing is watched."""
    await stand_in_line(server, key)


async def test_that_finds_a_herd(server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: everybody watches the one who is inside."""
    monkeypatch.setattr(lookout, "blocker", lambda ahead, weight, *, size: ahead[0])
    with pytest.raises(TimeoutError):
        await stand_in_line(server, key)
