"""Redlock: who has a majority is inside, who has not leaves nothing anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import aiodlock
from aiodlock import (
    AcquireTimeoutError,
    BackendUnavailableError,
    ConfigurationError,
    LockLostError,
    QuorumError,
    UnsupportedError,
)
from aiodlock._core.line import Gone, GoneWhy, Inside, LineId, Ticket
from aiodlock.backends.redis import council, redlock
from aiodlock.backends.redis.council import Council
from aiodlock.backends.redis.master import Master
from aiodlock.backends.redis.quorum import Votes, gather_votes, largest, majority_of
from aiodlock.backends.redis.redlock import RedlockBackend
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import IndependentMasters, TlsRedisServer, require
from aiodlock.testing.servers.resp import ask
from tests.integration.redis.conftest import until
from tests.integration.redis.scripts import load_scripts
from tests.integration.redlock.conftest import Connect, node_address, rows_on, taken, ticket, until_empty, until_shown


async def test_a_hold_is_on_every_server_and_its_release_everywhere(
    connect: Connect, shared_masters: IndependentMasters, key: str
) -> None:
    locks = await connect(shared_masters.nodes)
    async with locks.lock(key) as hold:
        for node in shared_masters.nodes:
            await until_shown(node, key, [True])  # with a majority it is ours: the others may still be under way
        (seen,) = [row async for row in locks.inspect(key)]
        assert (seen.owner, seen.inside) == (locks.name, True)
        assert hold.fence >> 15 == seen.epoch
    for node in shared_masters.nodes:
        await until_empty(node, key)


async def test_who_fails_leaves_nothing_anywhere(
    connect: Connect, shared_masters: IndependentMasters, key: str
) -> None:
    """Three servers are taken: the other two are given back."""
    locks = await connect(shared_masters.nodes)
    async with taken(shared_masters.nodes[:3], key):
        assert await locks.lock(key).try_acquire() is None
        for node in shared_masters.nodes[3:]:
            await until_empty(node, key)
    async with locks.lock(key, wait=5):
        pass


async def test_who_tries_again_and_again_keeps_nothing(
    connect: Connect, shared_masters: IndependentMasters, key: str
) -> None:
    locks, other = await connect(shared_masters.nodes), await connect(shared_masters.nodes)
    async with other.lock(key):
        for _ in range(20):
            assert await locks.lock(key).try_acquire() is None
        with pytest.raises(AcquireTimeoutError):
            await locks.lock(key).acquire(0.3)
    for client in (locks, other):
        assert isinstance(client.backend, RedlockBackend)
        await until(lambda backend=client.backend: not backend._stands)  # type: ignore[misc] # the last of five may answer late


async def test_who_does_not_give_back_is_found(
    connect: Connect, shared_masters: IndependentMasters, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what it got of a minority stays taken."""
    monkeypatch.setattr(Council, "_give_back", lambda self, stand, one: {})
    monkeypatch.setattr(Council, "leave", lambda self, stand: asyncio.sleep(0))
    locks = await connect(shared_masters.nodes)
    async with taken(shared_masters.nodes[:3], key):
        assert await locks.lock(key, ttl=2.0).try_acquire() is None
        with pytest.raises(TimeoutError):
            await until_empty(shared_masters.nodes[4], key, within=0.5)


async def test_who_is_content_with_a_minority_is_found(
    connect: Connect, shared_masters: IndependentMasters, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: it gets in beside those who have the other three."""
    monkeypatch.setattr("aiodlock.backends.redis.council.majority_of", lambda servers: 2)
    locks = await connect(shared_masters.nodes)
    async with taken(shared_masters.nodes[:3], key), locks.lock(key) as hold:
        assert not hold.lost


async def test_two_who_split_the_votes_both_get_in_later(
    connect: Connect, shared_masters: IndependentMasters, key: str
) -> None:
    """They try at the same instant, again and again; the random delay parts them."""

    async def enter(number: int) -> None:
        for _ in range(5):
            async with clients[number].lock(key):
                inside.append(number)
                assert len(inside) == 1
                await asyncio.sleep(0)
                inside.remove(number)

    inside: list[int] = []
    clients = [await connect(shared_masters.nodes) for _ in range(4)]
    async with asyncio.timeout(30):
        await asyncio.gather(*map(enter, range(4)))


async def test_a_release_is_told_to_who_waits(connect: Connect, shared_masters: IndependentMasters, key: str) -> None:
    """By a hint: without it the next try would come after half a minute."""
    mine = await connect(shared_masters.nodes)
    other = await connect(shared_masters.nodes, retry_delay=60.0)
    hold = await mine.lock(key).acquire()
    waiting = asyncio.create_task(other.lock(key, ttl=300).acquire())
    async with asyncio.timeout(20):
        while not hung_up(shared_masters, key):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await hold.release()
    async with asyncio.timeout(20):
        await (await waiting).release()


def hung_up(masters: IndependentMasters, key: str) -> bool:
    return all(ask(node.port, "EXISTS", f"aiodlock:{{{key}}}:lock%20bell") for node in masters.nodes)


# --- the fence -----------------------------------------------------------------------------------------------------


async def ahead(node_port: int, key: str) -> None:
    """Let one server be far ahead of the others with its epochs."""
    master = Master(node_address(node_port))
    await master.open(lambda call: None)
    first = ticket(key, "first")
    answer = await master.join(first)
    assert isinstance(answer, Inside)
    raised = await master.raise_epoch(first, answer.epoch + 10**9)
    assert isinstance(raised, Inside)
    assert raised.epoch == answer.epoch + 10**9
    await master.leave(first)
    assert isinstance(await master.raise_epoch(first, 1), Gone)
    await master.aclose()


async def fences(connect: Connect, masters: IndependentMasters, key: str) -> list[int]:
    """Return the fences of two holds, the second without the server that was ahead when the first was given out."""
    await ahead(masters.nodes[0].port, key)
    locks = await connect(masters.nodes)
    found = []
    async with locks.lock(key) as hold:
        found.append(hold.fence)
    masters.nodes[0].crash()
    async with locks.lock(key) as hold:
        found.append(hold.fence)
    return found


async def test_the_largest_epoch_is_written_back(connect: Connect, masters: IndependentMasters, key: str) -> None:
    """So the next majority knows it, also without the server that gave it."""
    first, second = await fences(connect, masters, key)
    assert first < second


async def test_without_writing_back_a_fence_goes_back(
    connect: Connect, masters: IndependentMasters, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""

    async def believe(self: Council, stand: redlock.Stand, one: Ticket, inside: dict[int, Inside]) -> Inside:
        stand.epoch = max(answer.epoch for answer in inside.values())
        return Inside(stand.epoch, min(answer.remaining for answer in inside.values()))

    # All five answer before it is decided, so that the one that is ahead is among them.
    monkeypatch.setattr(Council, "_is_enough_inside", lambda self, votes: len(votes) == 5)
    monkeypatch.setattr(Council, "_write_back", believe)
    first, second = await fences(connect, masters, key)
    assert first > second


# --- late and lost requests ----------------------------------------------------------------------------------------


@pytest.fixture
def scripts_are_loaded(shared_masters: IndependentMasters) -> None:
    for node in shared_masters.nodes:
        load_scripts(node)


async def arrive_late(connect: Connect, proxies: list[FaultProxy], key: str) -> None:
    """Let the joins of two servers arrive after the try that sent them was given up."""
    locks = await connect(proxies, limit=5.0)
    backend = locks.backend
    assert isinstance(backend, RedlockBackend)
    held = [proxy.hold_back(match=b"late") for proxy in proxies[3:]]
    for proxy in proxies[:3]:
        proxy.drop_request(match=b"late", times=1)
    joining = asyncio.create_task(backend.join(ticket(key, "late"), queue=False))
    for one in held:
        await asyncio.to_thread(one.wait, within=5)
    for proxy in proxies[3:]:
        proxy.cut()
    with pytest.raises(BackendUnavailableError):
        await joining
    for master in backend._council.masters[3:]:
        await until(lambda master=master: master.is_up and not master._debts)  # type: ignore[misc]
        await master.ping()  # behind the leave
    for one in held:
        await asyncio.to_thread(one.deliver)


@pytest.mark.usefixtures("scripts_are_loaded")
async def test_a_join_that_arrives_late_stands_nowhere(
    connect: Connect, shared_masters: IndependentMasters, proxies: list[FaultProxy], key: str
) -> None:
    await arrive_late(connect, proxies, key)
    for node in shared_masters.nodes:
        assert await rows_on(node, key) == []


@pytest.mark.usefixtures("scripts_are_loaded")
async def test_without_burying_it_stays_as_an_orphan(
    connect: Connect,
    shared_masters: IndependentMasters,
    proxies: list[FaultProxy],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin."""
    leave = Master.leave
    monkeypatch.setattr(Master, "leave", lambda self, ticket, *, bury=False: leave(self, ticket, bury=False))
    await arrive_late(connect, proxies, key)
    assert [len(await rows_on(node, key)) for node in shared_masters.nodes] == [0, 0, 0, 1, 1]


# --- staying in ----------------------------------------------------------------------------------------------------


async def test_a_hold_goes_on_while_a_majority_has_it(connect: Connect, masters: IndependentMasters, key: str) -> None:
    """Two servers may die under it; with the third it is lost, by its own clock, and says so."""
    locks = await connect(masters.nodes)
    with pytest.raises(LockLostError):
        async with locks.lock(key, ttl=3.0) as hold:
            went_on = False
            for node in masters.nodes[:2]:
                await asyncio.to_thread(node.crash)
            await asyncio.sleep(6.5)  # more than two leases
            hold.check()
            went_on = True
            await asyncio.to_thread(masters.nodes[2].crash)
            await asyncio.sleep(30)
    assert went_on


async def test_a_holder_is_asked_to_go_once(connect: Connect, shared_masters: IndependentMasters, key: str) -> None:
    """All servers tell it; the majority's word counts."""
    locks, other = await connect(shared_masters.nodes), await connect(shared_masters.nodes)
    async with locks.lock(key) as hold:
        assert await other.lock(key).revoke("please") == 1
        async with asyncio.timeout(20):
            while not hold.revoked:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert await other.lock(key).revoke("please") == 0


async def test_a_hold_can_be_taken_away(connect: Connect, shared_masters: IndependentMasters, key: str) -> None:
    locks, other = await connect(shared_masters.nodes), await connect(shared_masters.nodes)
    hold = await locks.lock(key).acquire()
    await other.lock(key).force_release()
    async with asyncio.timeout(20):
        await hold.wait_lost()
    for node in shared_masters.nodes:
        await until_empty(node, key)


# --- what it has not -----------------------------------------------------------------------------------------------


async def test_what_it_cannot_do_is_refused_before_anything_is_sent(
    connect: Connect, shared_masters: IndependentMasters, key: str
) -> None:
    locks = await connect(shared_masters.nodes)
    for make in (
        lambda: locks.semaphore(key, permits=2),
        lambda: locks.latch(key, count=2),
        lambda: locks.segmented(key, segments=2),
        lambda: locks.lock(key, fair=True),
        lambda: locks.rwlock(key, linger=1.0),
    ):
        with pytest.raises(UnsupportedError):
            make()
    with pytest.raises(UnsupportedError):
        await locks.backend.change_size(LineId("lock", key), 2)
    with pytest.raises(UnsupportedError):
        await locks.backend.latch(LineId("latch", key), count=1, down=1, operation="a", ttl=1.0)


async def test_without_a_majority_nobody_can_be_sure(connect: Connect, masters: IndependentMasters, key: str) -> None:
    """Acquiring ends when the servers were silent for a ttl; asking who holds ends at once."""
    locks = await connect(masters.nodes)
    for node in masters.nodes[:3]:
        await asyncio.to_thread(node.crash)
    with pytest.raises(BackendUnavailableError):
        await locks.lock(key, ttl=0.5).acquire()
    with pytest.raises(QuorumError, match="2 of 5 servers answered, 3 are needed") as caught:
        await locks.lock(key).holder()
    assert caught.value.key == key
    with pytest.raises(BackendUnavailableError, match="2 of 5"):
        await locks.ping()


LIMITS = pytest.mark.parametrize(("limit", "ttl"), [(600.0, 0.8), (0.1, 4800.0)], ids=["lease", "limit"])


async def try_while_most_are_silent(
    connect: Connect, proxies: list[FaultProxy], key: str, *, limit: float, ttl: float, within: float
) -> None:
    """Have the silent ones waited for, until that is given up or *within* seconds are over."""
    locks = await connect(proxies, limit=limit, patience=600.0)
    for proxy in proxies[:3]:
        proxy.half_open()
    with pytest.raises(BackendUnavailableError, match="of 5 servers answered"):
        async with asyncio.timeout(within):
            await locks.backend.join(ticket(key, "mine").wishing(ttl=ttl), queue=False)


@LIMITS
async def test_silent_servers_are_waited_for_up_to_the_limit_and_an_eighth_of_the_lease(
    connect: Connect,
    proxies: list[FaultProxy],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    limit: float,
    ttl: float,
) -> None:
    waited: list[float] = []

    def gather_noted(*asked: Any, limit: float) -> Awaitable[Votes[Any]]:
        waited.append(limit)
        return gather_votes(*asked, limit=limit)

    monkeypatch.setattr(council, "gather_votes", gather_noted)
    await try_while_most_are_silent(connect, proxies, key, limit=limit, ttl=ttl, within=20)
    assert waited == [600.0, 0.1]  # opening is left to the patience of a connection


@LIMITS
async def test_who_waits_for_silent_servers_without_a_limit_is_found(
    connect: Connect, proxies: list[FaultProxy], key: str, monkeypatch: pytest.MonkeyPatch, limit: float, ttl: float
) -> None:
    """The broken twins: each knows only the other of the two limits."""
    monkeypatch.setattr(council, "min", max, raising=False)
    with pytest.raises(TimeoutError):
        await try_while_most_are_silent(connect, proxies, key, limit=limit, ttl=ttl, within=0.5)


async def test_opening_needs_a_majority(masters: IndependentMasters) -> None:
    for node in masters.nodes[:3]:
        node.crash()
    with pytest.raises(BackendUnavailableError, match="2 of 5"):
        await aiodlock.connect(masters.url).start()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("redlock://h1,h2", "three or more"),
        ("redlock://h1,h2,h2", "different"),
        ("redlock://", "without hosts"),
        ("redlock://:s3cret@h1:port,h2,h3", "cannot be used"),
    ],
)
def test_a_url_that_cannot_work_is_refused(url: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint) as caught:
        aiodlock.connect(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("setting", [{"limit": 0}, {"limit": float("nan")}, {"retry_delay": -1.0}])
def test_a_time_that_cannot_work_is_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        aiodlock.connect("redlock://h1,h2,h3", **setting)


@pytest.mark.parametrize("scheme", ["redlock", "redlocks"])
def test_an_address_is_the_same_in_any_order(scheme: str) -> None:
    one, two = (RedlockBackend.from_url(f"{scheme}://u:p@{hosts}/1") for hosts in ("a,b,c:7", "c:7,a,b"))
    assert one.address == two.address == f"{scheme}://a:6379/1,b:6379/1,c:7/1"


async def test_tls_leads_to_every_server(tmp_path: Path, key: str) -> None:
    """By their authorities; without those nobody is believed, unless one says so."""
    require(TlsRedisServer)
    with ExitStack() as stack:
        servers = [stack.enter_context(TlsRedisServer()) for _ in range(3)]
        authorities = tmp_path / "authorities.crt"
        authorities.write_text("".join(server.authority.read_text() for server in servers))
        url = "redlocks://" + ",".join(f"127.0.0.1:{server.tls_port}" for server in servers)
        async with aiodlock.connect(f"{url}?ssl_ca_certs={authorities}") as locks, locks.lock(key):
            for server in servers:
                await until_shown(server, key, [True])
        with pytest.raises(BackendUnavailableError, match="0 of 3"):
            await aiodlock.connect(url).start()
        with pytest.raises(ConfigurationError, match="unverified=True"):
            aiodlock.connect(f"{url}?ssl_cert_reqs=none")
        async with aiodlock.connect(f"{url}?ssl_cert_reqs=none", unverified=True) as locks, locks.lock(key):
            pass


@pytest.mark.parametrize(("servers", "majority"), [(3, 2), (4, 3), (5, 3), (7, 4)])
def test_any_two_majorities_share_a_server(servers: int, majority: int) -> None:
    assert majority_of(servers) == majority
    assert 2 * majority > servers


def test_a_renewal_lasts_as_long_as_on_a_majority() -> None:
    assert largest([1.0, 9.0, 5.0, 8.0, 2.0], 3) == 5.0


async def test_a_ticket_that_was_left_is_gone(connect: Connect, shared_masters: IndependentMasters, key: str) -> None:
    backend = (await connect(shared_masters.nodes)).backend
    mine = ticket(key, "mine")
    assert isinstance(await backend.join(mine, queue=False), Inside)
    await backend.leave(mine, bury=True)
    answer = await backend.join(mine, queue=False)
    assert isinstance(answer, Gone)
    assert answer.why is GoneWhy.BURIED
