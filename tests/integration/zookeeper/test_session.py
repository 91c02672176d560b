"""The session over every fault of an ensemble: never two who believe, and nobody waits longer than he must."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aiodlock import BackendUnavailableError, LockClient
from aiodlock._core.line import LineId, Ticket, TicketId
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.backends.zookeeper.lookout import Lookout
from aiodlock.backends.zookeeper.proof import Proof
from aiodlock.backends.zookeeper.session import Session, SessionState
from aiodlock.backends.zookeeper.wire import Link
from aiodlock.events import BackendChanged, Event
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperEnsemble, ZooKeeperServer
from tests.acceptance import acceptance
from tests.integration.zookeeper.support import (
    Visits,
    answers,
    client,
    client_of,
    expire,
    in_line,
    is_parked,
    session_of,
    until,
    url_of,
)


async def _kill_the_server_of_a_waiter(ensemble: ZooKeeperEnsemble, key: str) -> Visits:
    """Let its follower die while it waits, then release: it is woken."""
    leader, follower, visits, go = ensemble.leader, ensemble.followers[0], Visits(key), asyncio.Event()
    elsewhere = client_of(follower, ensemble, session=8.0, name="waiter")
    async with client(leader.url, session=8.0, name="holder") as holder, elsewhere as waiter:
        staying = asyncio.create_task(visits.stay(holder, until=go))
        await visits.inside()
        entering = asyncio.create_task(visits.stay(waiter))
        await in_line(holder, key, 2)
        await until(lambda: is_parked(waiter))
        old = session_of(waiter).id
        follower.crash()
        await until(lambda: answers(waiter), within=6.0)  # its session would end after eight
        assert session_of(waiter).id == old
        go.set()
        await staying
        async with asyncio.timeout(4.0):
            await entering
    return visits


async def test_a_follower_killed_under_a_waiter_costs_a_moment(ensemble: ZooKeeperEnsemble, key: str) -> None:
    """It goes on with another server in the same session, and hears of its turn."""
    visits = await _kill_the_server_of_a_waiter(ensemble, key)
    assert (visits.count(), visits.violations()) == (2, [])


async def test_that_finds_a_waiter_that_does_not_look_again(
    ensemble: ZooKeeperEnsemble, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watches end with the connection: one that relies on them sleeps on."""
    monkeypatch.setattr(Lookout, "is_fresh", property(lambda self: self._via != -1))
    with pytest.raises(TimeoutError):
        await _kill_the_server_of_a_waiter(ensemble, key)


async def _visit_over(
    visits: Visits, holder: LockClient, waiter: LockClient, fault: object, *, stay: float = 3.0
) -> None:
    """Let *waiter* stand behind *holder*, let the fault happen, and let both go on until the waiter has been inside.

    The holder goes after *stay* seconds, if it has not lost its hold by then and nobody else is inside.
    """
    go = asyncio.Event()
    staying = asyncio.create_task(visits.stay(holder, until=go))
    await visits.inside()
    waiting = asyncio.create_task(visits.stay(waiter))
    await in_line(waiter, visits.key, 2)
    await until(lambda: is_parked(waiter))
    await asyncio.to_thread(fault)  # type: ignore[arg-type]
    await asyncio.wait({staying, waiting}, timeout=stay, return_when=asyncio.FIRST_COMPLETED)
    go.set()
    async with asyncio.timeout(20.0):
        await asyncio.gather(staying, waiting)


async def _kill_the_leader_of_a_holder(ensemble: ZooKeeperEnsemble, key: str) -> None:
    leader, visits = ensemble.leader, Visits(key)
    elsewhere = client(ensemble.url, session=8.0, name="waiter")
    async with client_of(leader, ensemble, session=8.0, name="holder") as holder, elsewhere as waiter:
        old = session_of(holder).id
        await _visit_over(visits, holder, waiter, leader.crash)
        assert session_of(holder).id == old
    assert [event.what for event in visits.events if event.who == "holder"].count("left") == 1
    assert (visits.count(), visits.violations()) == (2, [])


async def test_a_killed_leader_costs_nobody_his_hold(ensemble: ZooKeeperEnsemble, key: str) -> None:
    """Another one is elected within the session, which goes on, and with it the hold."""
    await _kill_the_leader_of_a_holder(ensemble, key)


@pytest.mark.long
async def test_that_finds_a_client_that_begins_anew(
    ensemble: ZooKeeperEnsemble, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another session after every reconnect: its hold goes with the old one."""
    greet = Link.greet

    async def forget(self: Link, **who: Any) -> Any:
        return await greet(self, **who | {"session": 0, "password": bytes(16)})

    monkeypatch.setattr(Link, "greet", forget)
    with pytest.raises(AssertionError):
        await _kill_the_leader_of_a_holder(ensemble, key)


async def _pause_the_leader_of_a_holder(ensemble: ZooKeeperEnsemble, key: str) -> Visits:
    """The others elect another one, which ends the session of the holder, who knows no other server."""
    leader, followers, visits = ensemble.leader, ensemble.followers, Visits(key)
    elsewhere = client(url_of(*(node.port for node in followers)), session=8.0, name="waiter")
    async with client(leader.url, name="holder") as holder, elsewhere as waiter:
        await _visit_over(visits, holder, waiter, leader.pause, stay=15.0)
        leader.resume()
    assert visits.count() == 2
    return visits


@pytest.mark.long
async def test_a_paused_leader_makes_no_two_holders(ensemble: ZooKeeperEnsemble, key: str) -> None:
    """Its client stops believing before the next one enters."""
    assert (await _pause_the_leader_of_a_holder(ensemble, key)).violations() == []


@pytest.mark.long
async def test_that_finds_a_holder_that_believes_in_a_paused_leader(
    ensemble: ZooKeeperEnsemble, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as its ttl says."""
    monkeypatch.setattr(Session, "valid_until", property(lambda self: self.now() + 60.0))
    assert (await _pause_the_leader_of_a_holder(ensemble, key)).violations() != []


async def _cut_off_the_follower_of_a_holder(severable: ZooKeeperEnsemble, key: str) -> Visits:
    """It still answers its client; the leader ends the session and lets the next one in."""
    follower, visits = severable.followers[0], Visits(key)
    holder = client(follower.url, session=3.0, name="holder")
    async with holder, client(severable.leader.url, session=20.0, name="waiter") as waiter:
        await _visit_over(visits, holder, waiter, lambda: severable.cut_off(follower), stay=15.0)
        severable.heal()
    assert visits.count() == 2
    return visits


@pytest.mark.timeout(180)
async def test_a_holder_behind_a_cut_off_follower_stops_believing(severable: ZooKeeperEnsemble, key: str) -> None:
    """Before the next one enters, though its server goes on answering."""
    assert (await _cut_off_the_follower_of_a_holder(severable, key)).violations() == []


async def _cut_off_the_follower_of_one_who_was_frozen(slow: ZooKeeperEnsemble, key: str) -> Visits:
    """It was silent for most of its session, enters, and its follower is cut off before that tells of it."""
    follower, visits, go = slow.followers[0], Visits(key), asyncio.Event()
    holder = client(follower.url, session=3.0, tick=1.0, name="holder")
    async with holder, client(slow.leader.url, session=20.0, name="waiter") as waiter:
        time.sleep(2.5)  # noqa: ASYNC251 - nothing is sent meanwhile
        entering = asyncio.create_task(visits.stay(holder, until=go))
        await in_line(waiter, key, 1)
        slow.cut_off(follower)
        async with asyncio.timeout(20.0):
            await visits.stay(waiter)
        slow.heal()
        go.set()
        async with asyncio.timeout(20.0):
            await entering
        await asyncio.to_thread(slow.wait_until_whole)
    return visits


@pytest.mark.timeout(180)
async def test_one_who_was_frozen_does_not_believe_the_first_answer(slow: ZooKeeperEnsemble, key: str) -> None:
    """The leader has answered it, and ends its session all the same: it counts from before the silence."""
    assert (await _cut_off_the_follower_of_one_who_was_frozen(slow, key)).violations() == []


@pytest.mark.timeout(180)
async def test_that_finds_a_session_that_counts_from_the_last_answer(
    slow: ZooKeeperEnsemble, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if what a follower passes on prolonged it. Now and then the follower has told the leader before it is cut."""
    hear = Proof.hear

    def believe(self: Proof, sent_at: float, now: float, *, of_leader: bool) -> None:
        hear(self, sent_at, now, of_leader=of_leader)
        if of_leader:
            self._since = sent_at

    monkeypatch.setattr(Proof, "hear", believe)
    for number in range(5):
        if (await _cut_off_the_follower_of_one_who_was_frozen(slow, f"{key}-{number}")).violations():
            return
    raise AssertionError("nobody believed too long")


@pytest.mark.timeout(180)
async def test_that_finds_a_session_that_is_believed_by_its_pings(
    severable: ZooKeeperEnsemble, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower answers pings, and reads, long after the leader has let the next one in."""

    def believe(self: Session) -> asyncio.Future[None]:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    monkeypatch.setattr(Session, "sync", believe)
    monkeypatch.setattr(Session, "valid_until", property(lambda self: self.now() + 2 * self.seconds / 3))
    assert (await _cut_off_the_follower_of_a_holder(severable, key)).violations() != []


async def _ask_a_silent_server(proxy: FaultProxy, key: str, *, within: float = 10.0) -> set[type]:
    """Let it hear nothing more and say nothing more; return how each verb ends."""
    line = LineId("semaphore", key)
    held, new = (Ticket.of(line, TicketId(f"{key}-{n}"), size=4) for n in range(2))
    async with client(url_of(proxy.port), session=3.0) as mine:
        backend = mine.backend
        await backend.join(held)
        proxy.half_open()
        try:
            async with asyncio.timeout(within):
                ended = await asyncio.gather(
                    backend.ping(),
                    backend.join(new),
                    backend.leave(held),
                    backend.inspect("*", "*"),
                    backend.change_size(line, 2),
                    backend.revoke(line, "please"),
                    backend.latch(LineId("latch", key), count=1, down=1, operation="1", ttl=5.0),
                    return_exceptions=True,
                )
        finally:
            proxy.heal()
    return set(map(type, ended))


async def test_a_silent_server_is_not_waited_for(proxy: FaultProxy, key: str) -> None:
    """Whatever it is asked, the connection is given up after a third of a session."""
    assert await _ask_a_silent_server(proxy, key) == {BackendUnavailableError}


async def test_that_finds_a_client_that_waits_for_a_silent_server(
    proxy: FaultProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket is open, and nothing else would tell it."""
    monkeypatch.setattr(Link, "_check", lambda self: None)
    with pytest.raises(TimeoutError):
        await _ask_a_silent_server(proxy, key, within=3.0)


async def _take_two_of_three_down_and_back(ensemble: ZooKeeperEnsemble, key: str) -> Visits:
    visits, (one, two) = Visits(key), ensemble.followers
    async with client(ensemble.url, name="holder") as holder, client(ensemble.url, name="waiter") as waiter:
        go = asyncio.Event()
        staying = asyncio.create_task(visits.stay(holder, until=go))
        await visits.inside()
        waiting = asyncio.create_task(visits.stay(waiter))
        await in_line(waiter, key, 2)
        try:
            one.crash()
            two.crash()
            async with asyncio.timeout(5.0):
                await staying  # lost by its own clock
            assert not waiting.done()
            await asyncio.gather(*(asyncio.to_thread(node.start) for node in (one, two)))
            async with asyncio.timeout(20.0):
                await waiting
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})
    return visits


@pytest.mark.long
async def test_two_of_three_down_and_back(ensemble: ZooKeeperEnsemble, key: str) -> None:
    """Without a majority nobody believes for longer than a session, nobody enters, and then it goes on."""
    visits = await _take_two_of_three_down_and_back(ensemble, key)
    assert (visits.count(), visits.violations()) == (2, [])


@pytest.mark.long
async def test_that_finds_a_holder_that_believes_without_a_majority(
    ensemble: ZooKeeperEnsemble, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was told last."""
    monkeypatch.setattr(Session, "valid_until", property(lambda self: self.now() + 60.0))
    with pytest.raises(TimeoutError):
        await _take_two_of_three_down_and_back(ensemble, key)


async def _expire_a_holder(server: ZooKeeperServer, key: str) -> Visits:
    """End its session behind its back, and let another one in when it has a new one."""
    visits, go = Visits(key), asyncio.Event()
    async with client(server.url, session=30.0, name="holder") as holder, client(server.url, name="next") as other:
        old = session_of(holder).id
        staying = asyncio.create_task(visits.stay(holder, until=go))
        await visits.inside()
        await expire(session_of(holder), server)
        await until(lambda: session_of(holder).state is SessionState.CONNECTED and session_of(holder).id != old)
        await visits.stay(other)
        go.set()
        await staying
    assert visits.count() == 2
    return visits


@acceptance(53)
async def test_an_ended_session_ends_its_holds_at_once(server: ZooKeeperServer, key: str) -> None:
    """Long before they would end by themselves; the client goes on with a new session."""
    assert (await _expire_a_holder(server, key)).violations() == []


async def test_that_finds_a_client_that_keeps_its_holds(
    server: ZooKeeperServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes a new session for a mere reconnect believes on beside the next holder."""
    changed = ZooKeeperBackend._session_changed

    def overlook(self: ZooKeeperBackend, state: SessionState, via: int) -> None:
        if state is not SessionState.LOST:
            changed(self, state, via)

    monkeypatch.setattr(ZooKeeperBackend, "_session_changed", overlook)
    monkeypatch.setattr(Lookout, "is_fresh", property(lambda self: self._via != -1))
    assert (await _expire_a_holder(server, key)).violations() != []


async def test_a_user_is_told_of_the_session(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """Suspended is a warning, and the hold goes on; lost is the end of it."""
    events: list[Event] = []
    async with client(url_of(proxy.port), session=8.0, on_event=events.append) as mine:
        hold = await mine.lock(key).acquire()
        proxy.refuse()
        proxy.reset()
        await until(lambda: BackendChanged("suspended") in events)
        hold.check()
        proxy.heal()
        await until(lambda: BackendChanged("connected") in events)
        hold.check()
        await expire(session_of(mine), server)
        await hold.wait_lost()
        await until(lambda: BackendChanged("lost") in events)
