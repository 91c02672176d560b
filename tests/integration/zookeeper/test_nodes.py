"""What is in the tree after lost answers, cuts, and hands that meddle with it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial

import pytest

from aiodlock import Hold, LockClient, LockLostError
from aiodlock._core.line import Inside, LineId, Ticket, TicketId
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.backends.zookeeper.node import OwnNode
from aiodlock.backends.zookeeper.stand import Stand
from aiodlock.backends.zookeeper.watches import OwnWatch
from aiodlock.testing.history import Recorder, check_fencing, stays
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperServer
from tests.acceptance import acceptance
from tests.conformance.worlds import ProxyTrouble, asks_for, opcodes
from tests.integration.zookeeper.support import (
    Visits,
    answers,
    client,
    delete,
    expire,
    give_up,
    in_line,
    is_parked,
    nodes,
    session_of,
    until,
    url_of,
)

_SET = 5  # opcode


@pytest.fixture
def trouble(proxy: FaultProxy) -> ProxyTrouble:
    return ProxyTrouble(proxy, sign=asks_for)


async def _lose_the_answer_of_a_create(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> Visits:
    visits, go = Visits(key), asyncio.Event()
    async with client(url_of(proxy.port), session=8.0, name="mine") as mine, client(server.url, name="other") as other:
        staying = asyncio.create_task(visits.stay(other, until=go))
        await visits.inside()
        ProxyTrouble(proxy, sign=asks_for).drop_reply("join")
        entering = asyncio.create_task(visits.stay(mine, wait=3.0))
        await until(lambda: proxy.counts.replies_dropped == 1)
        await until(lambda: answers(mine))
        await in_line(other, key, 2)
        go.set()
        await asyncio.gather(staying, entering)
        assert await nodes(other, key) == []
    return visits


@acceptance(54)
async def test_a_node_whose_making_was_not_answered_is_found(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """And adopted: there is one, and it goes with the release."""
    visits = await _lose_the_answer_of_a_create(server, proxy, key)
    assert (visits.count(), visits.violations()) == (2, [])


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


async def _lose_the_answer_of_a_create_at_the_front(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """Let another one stand behind it before it can ask again."""
    entered = list[tuple[str, int]]()

    async def enter(who: LockClient) -> None:
        async with who.lock(key, fair=True) as hold:
            entered.append((who.name, hold.fence >> 15))

    async with client(url_of(proxy.port), session=8.0, name="mine") as mine, client(server.url, name="other") as other:
        assert isinstance(other.backend, ZooKeeperBackend)
        await other.backend._tree.make(f"/aiodlock/lock/{key}")  # no container: the server would remove it while empty
        proxy.refuse()
        proxy.drop_reply(match=asks_for("join"), times=1)
        entering = [asyncio.create_task(enter(mine))]
        await until(lambda: proxy.counts.replies_dropped == 1)
        entering.append(asyncio.create_task(enter(other)))
        await in_line(other, key, 2)
        rows = [row async for row in other.inspect(key)]
        proxy.heal()
        await asyncio.gather(*entering)
        assert [row.owner for row in rows] == ["mine", "other"]
        assert entered[0] == ("mine", rows[0].epoch)
        assert [name for name, _ in entered] == ["mine", "other"]


async def test_a_node_at_the_front_whose_making_was_not_answered_is_kept(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """It is inside with the epoch of the node that it made first, and nobody overtakes it."""
    await _lose_the_answer_of_a_create_at_the_front(server, proxy, key)


async def test_that_finds_a_ticket_without_a_life(
    server: ZooKeeperServer, proxy: FaultProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up as soon as it is told that it is inside, because it had been asked for before."""
    join, plan, seen = Stand.join, ZooKeeperBackend._plan_expiry, set[TicketId]()

    async def again(self: Stand, *, queue: bool, instead_of: Stand | None) -> None:
        if self.ticket.id in seen:
            self.ends = self.session.now()
        seen.add(self.ticket.id)
        await join(self, queue=queue, instead_of=instead_of)

    def plan_or_expire(self: ZooKeeperBackend, stand: Stand) -> None:
        """A renewal would else come before the end of a life that is over at once."""
        (self._expire if stand.ends <= stand.session.now() else partial(plan, self))(stand)

    monkeypatch.setattr(Stand, "join", again)
    monkeypatch.setattr(ZooKeeperBackend, "_plan_expiry", plan_or_expire)
    with pytest.raises(AssertionError):
        await _lose_the_answer_of_a_create_at_the_front(server, proxy, key)


async def test_a_node_whose_making_comes_late_is_lost_with_its_connection(
    server: ZooKeeperServer, proxy: FaultProxy, key: str
) -> None:
    """Whoever comes back ends his old connection: there is one node, and it goes with the release."""
    async with client(url_of(proxy.port), session=20.0) as mine, client(server.url) as other:
        async with other.lock(key):
            pass  # the line is there now
        held = proxy.hold_back(match=asks_for("join"))
        acquiring = asyncio.create_task(mine.lock(key).acquire())
        await asyncio.to_thread(held.wait, within=5.0)
        proxy.cut()
        hold = await acquiring
        with pytest.raises(ConnectionError, match="ended before the late request"):
            await asyncio.to_thread(held.deliver)
        assert len(await nodes(other, key)) == 1
        await hold.release()
        assert await nodes(other, key) == []


async def _lose_the_note_of_one_who_is_let_in(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """Two are inside and two wait: the last one watches the one before it until that is let in, and says so."""
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(client(url_of(proxy.port), session=20.0))
        near, last = [await stack.enter_async_context(client(server.url, session=20.0)) for _ in range(2)]
        inside = [await near.semaphore(key, permits=2).acquire() for _ in range(2)]
        entering = list[asyncio.Task[Hold]]()
        stack.push_async_callback(give_up, entering)
        for count, who in enumerate((far, last), start=3):
            entering.append(asyncio.create_task(who.semaphore(key, permits=2).acquire()))
            await until(partial(_stand_and_are_parked, near, key, count, who))
        proxy.drop_request(match=lambda chunk: _SET in opcodes(chunk), times=1)
        await inside[0].release()
        hold = await entering[0]
        await until(lambda: proxy.counts.requests_dropped == 1)
        await until(lambda: answers(far))
        await inside[1].release()
        async with asyncio.timeout(4.0):
            await (await entering[1]).release()
        await hold.release()


async def _stand_and_are_parked(observer: LockClient, key: str, count: int, who: LockClient) -> bool:
    return len([row async for row in observer.inspect(key)]) == count and is_parked(who)


async def test_being_let_in_is_told_until_it_was_heard(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """A permit that is free goes to the next one, though its neighbour's note was lost with the connection."""
    await _lose_the_note_of_one_who_is_let_in(server, proxy, key)


async def test_that_finds_a_note_that_is_not_repeated(
    server: ZooKeeperServer, proxy: FaultProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one waits beside a free permit."""
    monkeypatch.setattr(Stand, "_owes_note", property(lambda self: False, lambda self, value: None), raising=False)
    with pytest.raises(TimeoutError):
        await _lose_the_note_of_one_who_is_let_in(server, proxy, key)


async def _release_without_a_connection(server: ZooKeeperServer, trouble: ProxyTrouble, url: str, key: str) -> Visits:
    visits, go = Visits(key), asyncio.Event()
    async with client(url, session=20.0, name="mine") as mine, client(server.url, name="other") as other:
        staying = asyncio.create_task(visits.stay(mine, until=go, ttl=1.0))
        await visits.inside()
        trouble.go_down()
        go.set()
        await staying
        # The engine repeats it for one ttl, and then trusts in the end of the lease.
        assert mine._engine is not None
        await until(lambda: not mine._engine.leaving)
        trouble.come_back()
        await until(lambda: answers(mine))
        await visits.stay(other, wait=4.0)
        assert await nodes(other, key) == []
    return visits


@acceptance(56)
async def test_a_release_without_a_connection_is_made_up_for(
    server: ZooKeeperServer, proxy: FaultProxy, trouble: ProxyTrouble, key: str
) -> None:
    """The node would stay as long as the session: it goes with the reconnect."""
    visits = await _release_without_a_connection(server, trouble, url_of(proxy.port), key)
    assert (visits.count(), visits.violations()) == (2, [])


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
    visits, go, leave = Visits(key), asyncio.Event(), asyncio.Event()
    async with client(url_of(proxy.port), name="mine") as mine, client(server.url, name="other") as other:
        staying = asyncio.create_task(visits.stay(other, until=go))
        await visits.inside()
        trouble.drop_reply("join")
        entering = asyncio.create_task(visits.stay(mine, until=leave))
        await in_line(other, key, 2)
        trouble.go_down()
        old = session_of(mine).id
        await expire(session_of(mine), server)
        await in_line(other, key, 1)
        trouble.come_back()
        await in_line(other, key, 2)
        assert session_of(mine).id != old
        go.set()
        await until(lambda: visits.count() == 2)
        await in_line(other, key, 1)
        leave.set()
        await asyncio.gather(staying, entering)
        assert await nodes(other, key) == []
    assert (visits.count(), visits.violations()) == (2, [])


async def _find_a_node_of_an_older_session(server: ZooKeeperServer, key: str) -> None:
    async with client(server.url) as old, client(server.url) as mine:
        assert isinstance(mine.backend, ZooKeeperBackend)
        ticket = Ticket.of(LineId("lock", key), TicketId("t"))
        await old.backend.join(ticket)
        mine.backend._stands[ticket.id] = stand = Stand(mine.backend._site, ticket)
        stand.node.in_doubt, stand.ends = True, session_of(mine).now() + 30.0
        assert isinstance(await mine.backend.join(ticket), Inside)
        (name,) = await nodes(mine, key)
        _, stat = await mine.backend._tree.get(f"/aiodlock/lock/{key}/{name}")
        assert stat.owner == session_of(mine).id
        await mine.backend.leave(ticket)


@acceptance(55)
async def test_a_node_of_an_older_session_is_removed(server: ZooKeeperServer, key: str) -> None:
    """It bears our ticket's id, but would go with another session: it is not believed."""
    await _find_a_node_of_an_older_session(server, key)


async def test_that_finds_a_node_that_is_not_ours(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted by its name alone."""

    async def believe(self: OwnNode) -> None:
        self.epoch = 1

    monkeypatch.setattr(OwnNode, "_read", believe)
    with pytest.raises(AssertionError):
        await _find_a_node_of_an_older_session(server, key)


async def _delete_the_node_of_a_holder(server: ZooKeeperServer, key: str) -> Visits:
    visits, never = Visits(key), asyncio.Event()
    async with client(server.url, session=30.0, name="mine") as mine, client(server.url, name="other") as other:
        staying = asyncio.create_task(visits.stay(mine, until=never))
        await visits.inside()
        (name,) = await nodes(other, key)
        await delete(other, f"/aiodlock/lock/{key}/{name}")
        async with asyncio.timeout(4.0):  # its next renewal would be later
            await staying  # which only a loss ends
        await visits.stay(other)
    return visits


async def test_a_holder_notices_that_its_node_was_deleted(server: ZooKeeperServer, key: str) -> None:
    """At once: somebody else may be inside already."""
    visits = await _delete_the_node_of_a_holder(server, key)
    assert (visits.count(), visits.violations()) == (2, [])


async def test_that_finds_a_holder_that_does_not_watch_its_node(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would find out with its next renewal."""
    monkeypatch.setattr(OwnWatch, "begin", lambda self: None)
    with pytest.raises(TimeoutError):
        await _delete_the_node_of_a_holder(server, key)


async def _remove_a_line_under_its_waiters(server: ZooKeeperServer, key: str) -> Visits:
    visits = Visits(key)
    async with AsyncExitStack() as stack:
        mine, other, admin = [
            await stack.enter_async_context(client(server.url, name=name)) for name in ("mine", "other", "admin")
        ]
        hold = await mine.lock(key).acquire()
        waiters = [asyncio.create_task(_enter_for_good(visits, who)) for who in (mine, other)]
        await in_line(admin, key, 3)
        line = f"/aiodlock/lock/{key}"
        await delete(admin, *(f"{line}/{name}" for name in await nodes(admin, key)), line)
        async with asyncio.timeout(5.0):
            await asyncio.gather(hold.wait_lost(), *waiters)
        assert await nodes(admin, key) == []
    return visits


async def _enter_for_good(visits: Visits, who: LockClient) -> None:
    """Enter until it was not lost: the next in line may be let in, and then hear that its own node has gone too."""
    record = Recorder(visits.events.append, who=who.name)
    while True:
        asked = record.now()
        hold = await who.lock(visits.key, fair=True).acquire()
        facts = {"key": visits.key, "id": hold.fence}
        record("inside", **facts, asked=asked, valid_until=record.now() + hold.remaining, fence=hold.fence)
        await who.ping()
        record("left", **facts)
        with suppress(LockLostError):
            await hold.release()
            return


@acceptance(57)
async def test_a_line_removed_under_its_waiters_is_made_again(server: ZooKeeperServer, key: str) -> None:
    """They stand again, and get in one after the other; who was inside hears that he no longer is.

    Who removes nodes ends exclusion; what still holds is that later fences are larger.
    """
    visits = await _remove_a_line_under_its_waiters(server, key)
    assert visits.count() >= 2
    assert check_fencing(stays(visits.events)) == []


async def test_that_finds_waiters_of_a_line_that_is_no_more(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody minds that his node has gone."""
    monkeypatch.setattr(Stand, "lose", lambda self: None)
    with pytest.raises(TimeoutError):
        await _remove_a_line_under_its_waiters(server, key)


async def test_a_downgrade_is_no_loss(server: ZooKeeperServer, key: str) -> None:
    """Our old node goes by our own hand, also if we begin to watch it while it is on its way."""
    async with client(server.url) as mine:
        backend, calls = mine.backend, list[object]()
        assert isinstance(backend, ZooKeeperBackend)
        backend._on_call = calls.append
        ticket = Ticket.of(LineId("rwlock", key), TicketId("t"), weight=1 << 30, size=1 << 30)
        await backend.join(ticket)
        changing = asyncio.create_task(backend.change_weight(ticket, 1))
        stand = backend._stands[ticket.id]
        await until(lambda: stand.node.in_doubt, every=0.0)
        stand._arm()
        assert isinstance(await changing, Inside)
        await backend.ping()
        assert isinstance((await backend.renew([ticket]))[0], Inside)
        assert calls == []
        await backend.leave(ticket)


async def test_a_watch_that_failed_is_set_again(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """Begun while a connection was being made, over which it was then not sent."""
    async with client(url_of(proxy.port), session=8.0) as mine, client(server.url) as other:
        hold = await mine.lock(key).acquire()
        assert isinstance(mine.backend, ZooKeeperBackend)
        (stand,) = mine.backend._stands.values()
        proxy.half_open()
        before = session_of(mine).via
        proxy.reset()
        await until(lambda: session_of(mine).via > before)
        stand._arm()
        proxy.heal()
        await until(lambda: answers(mine))
        async with asyncio.timeout(5.0):
            (name,) = await nodes(other, key)
            await delete(other, f"/aiodlock/lock/{key}/{name}")
            await hold.wait_lost()


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


async def test_an_open_latch_is_watched_no_more(server: ZooKeeperServer, key: str) -> None:
    """Nor kept in memory: a service that makes many would grow with them."""
    async with client(server.url) as mine, client(server.url) as other:
        assert isinstance(mine.backend, ZooKeeperBackend)
        waiting = [asyncio.create_task(who.latch(key, count=2).opened()) for who in (mine, other)]
        await mine.latch(key, count=2).count_down()
        await other.latch(key, count=2).count_down()
        async with asyncio.timeout(5.0):
            await asyncio.gather(*waiting)
        await until(lambda: not (mine.backend._latches._watches or mine.backend._tree._watchers))
