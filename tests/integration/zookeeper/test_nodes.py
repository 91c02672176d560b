"""What is in the tree after lost answers, cuts, and hands that meddle with it."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock import LockLostError
from aiodlock._core.line import Inside, LineId, Ticket, TicketId
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.backends.zookeeper.node import OwnNode
from aiodlock.backends.zookeeper.stand import Stand
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperServer
from tests.acceptance import acceptance
from tests.conformance.worlds import ProxyTrouble, asks_for
from tests.integration.zookeeper.support import (
    answers,
    client,
    delete,
    expire,
    in_line,
    nodes,
    session_of,
    until,
    url_of,
)


@pytest.fixture
def trouble(proxy: FaultProxy) -> ProxyTrouble:
    return ProxyTrouble(proxy, sign=asks_for)


async def _lose_the_answer_of_a_create(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    async with client(url_of(proxy.port), session=8.0) as mine, client(server.url) as other:
        async with other.lock(key):
            ProxyTrouble(proxy, sign=asks_for).drop_reply("join")
            acquiring = asyncio.create_task(mine.lock(key).acquire(3.0))
            await until(lambda: proxy.counts.replies_dropped == 1)
            await until(lambda: answers(mine))
        async with await acquiring:
            assert len(await nodes(other, key)) == 1
        assert await nodes(other, key) == []


@acceptance(54)
async def test_a_node_whose_making_was_not_answered_is_found(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """And adopted: there is one, and it goes with the release."""
    await _lose_the_answer_of_a_create(server, proxy, key)


async def test_that_finds_a_client_that_makes_another(
    server: ZooKeeperServer, proxy: FaultProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands behind itself."""

    async def overlook(self: OwnNode) -> bool:
        self.in_doubt = False
        return False

    monkeypatch.setattr(OwnNode, "find", overlook)
    with pytest.raises(TimeoutError):
        await _lose_the_answer_of_a_create(server, proxy, key)


async def _release_without_a_connection(server: ZooKeeperServer, trouble: ProxyTrouble, url: str, key: str) -> None:
    async with client(url, session=8.0) as mine, client(server.url) as other:
        hold = await mine.lock(key, ttl=0.5).acquire()
        trouble.go_down()
        await hold.release()
        await asyncio.sleep(1.0)  # the engine repeats it for one ttl, and then trusts in the end of the lease
        trouble.come_back()
        await until(lambda: answers(mine))
        async with other.lock(key, wait=1.0):
            assert len(await nodes(other, key)) == 1


@acceptance(56)
async def test_a_release_without_a_connection_is_made_up_for(
    server: ZooKeeperServer, proxy: FaultProxy, trouble: ProxyTrouble, key: str
) -> None:
    """The node would stay as long as the session: it goes with the reconnect."""
    await _release_without_a_connection(server, trouble, url_of(proxy.port), key)


async def test_that_finds_a_node_that_is_forgotten(
    server: ZooKeeperServer,
    proxy: FaultProxy,
    trouble: ProxyTrouble,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If nobody makes up for it."""

    async def forget(self: ZooKeeperBackend, stand: Stand) -> None:
        pass

    monkeypatch.setattr(ZooKeeperBackend, "_leave", forget)
    with pytest.raises(TimeoutError):
        await _release_without_a_connection(server, trouble, url_of(proxy.port), key)


@acceptance(53)
async def test_the_node_of_a_lost_session_is_nobodys(
    server: ZooKeeperServer, proxy: FaultProxy, trouble: ProxyTrouble, key: str
) -> None:
    """Made without an answer, its session ended meanwhile: it is not adopted, and the next ticket gets in."""
    async with client(url_of(proxy.port)) as mine, client(server.url) as other:
        async with other.lock(key):
            trouble.drop_reply("join")
            acquiring = asyncio.create_task(mine.lock(key).acquire())
            await in_line(other, key, 2)
            trouble.go_down()
            old = session_of(mine).id
            await expire(session_of(mine), server)
            await in_line(other, key, 1)
            trouble.come_back()
            await in_line(other, key, 2)
            assert session_of(mine).id != old
        async with await acquiring:
            assert len(await nodes(other, key)) == 1
        assert await nodes(other, key) == []


@acceptance(55)
async def test_a_node_of_an_older_session_is_removed(server: ZooKeeperServer, key: str) -> None:
    """It bears our ticket's id, but would go with another session: it is not believed."""
    async with client(server.url) as old, client(server.url) as mine:
        ticket = Ticket(LineId("lock", key), TicketId("t"))
        await old.backend.join(ticket)
        mine.backend._stands[ticket.id] = stand = Stand(mine.backend._site, ticket)  # type: ignore[attr-defined]
        stand.node.in_doubt = True
        (left,) = await nodes(mine, key)
        assert isinstance(await mine.backend.join(ticket), Inside)
        assert left not in await nodes(mine, key)
        await mine.backend.leave(ticket)


async def _delete_the_node_of_a_holder(server: ZooKeeperServer, key: str) -> None:
    async with client(server.url, session=30.0) as mine, client(server.url) as other:
        hold = await mine.lock(key).acquire()
        (name,) = await nodes(other, key)
        await delete(other, f"/aiodlock/lock/{key}/{name}")
        async with asyncio.timeout(1.0):
            await hold.wait_lost()
        with pytest.raises(LockLostError):
            await hold.release()


async def test_a_holder_notices_that_its_node_was_deleted(server: ZooKeeperServer, key: str) -> None:
    """At once: somebody else may be inside already."""
    await _delete_the_node_of_a_holder(server, key)


async def test_that_finds_a_holder_that_does_not_watch_its_node(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would find out with its next renewal."""
    monkeypatch.setattr(Stand, "_watch_own", lambda self: None)
    with pytest.raises(TimeoutError):
        await _delete_the_node_of_a_holder(server, key)


@acceptance(57)
async def test_a_line_removed_under_its_waiters_is_made_again(server: ZooKeeperServer, key: str) -> None:
    """They stand again, and get in one after the other."""
    async with client(server.url) as mine, client(server.url) as other, client(server.url) as admin:
        hold = await mine.lock(key).acquire()
        waiters = [asyncio.create_task(who.lock(key, fair=True).acquire()) for who in (mine, other)]
        await in_line(admin, key, 3)
        await delete(admin, *(f"/aiodlock/lock/{key}/{name}" for name in await nodes(admin, key)))
        async with asyncio.timeout(5.0):
            done, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
            assert hold.lost
            await (first := done.pop()).result().release()
            (second,) = set(waiters) - {first}
            await (await second).release()


async def test_empty_lines_go_away(server: ZooKeeperServer, key: str) -> None:
    """The server removes them, and they come again when somebody does."""
    async with client(server.url) as mine:
        for _ in range(2):
            async with mine.lock(key):
                pass
            await until(lambda: _is_gone(mine, f"/aiodlock/lock/{key}"))


async def _is_gone(who: object, path: str) -> bool:
    parent, _, name = path.rpartition("/")
    return name not in await who.backend._tree.children(parent)  # type: ignore[attr-defined]
