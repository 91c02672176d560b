"""Sentinel: the master is found, followed when another takes over, and everybody looks again there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

import aiodlock
from aiodlock import BackendUnavailableError, Hold, LockClient
from aiodlock.backends.redis.acl import WATCHING, sentinel_acl_line
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.backend import RedisBackend
from aiodlock.backends.redis.discovery import Sentinels, Told
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.sentinel import SentinelBackend
from aiodlock.errors import ConfigurationError
from aiodlock.testing.history import Event, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import (
    RedisSentinel,
    RedisServer,
    SentinelService,
    TlsRedisServer,
    free_ports,
    require,
)
from aiodlock.testing.servers.redis import ask
from tests.integration.redis.conftest import until


@pytest.fixture(scope="module")
def running() -> Iterator[SentinelService]:
    require(RedisServer)
    require(RedisSentinel)
    with SentinelService() as service:
        yield service


@pytest.fixture
def service(running: SentinelService) -> Iterator[SentinelService]:
    """The service; every server is well again afterwards."""
    yield running
    running.heal()


@asynccontextmanager
async def client_of(service: SentinelService, name: str, **settings: Any) -> AsyncIterator[LockClient]:
    async with aiodlock.connect(service.url, name=name, **{"patience": 1.0, **settings}) as locks:
        yield locks


def port_of(locks: LockClient) -> int | None:
    """Return the port of the server that *locks* talks to."""
    assert isinstance(locks.backend, SentinelBackend)
    peer = locks.backend._node.peer
    return peer and peer[1]


# --- discovery -----------------------------------------------------------------------------------------------


async def test_the_master_is_found_and_locked_at(service: SentinelService) -> None:
    """Two clients exclude each other, at the server that the sentinels name."""
    async with client_of(service, "a") as first, client_of(service, "b") as second:
        async with first.lock("found"):
            assert await second.lock("found").try_acquire() is None
        assert port_of(first) == port_of(second) == service.master.port


async def test_two_dead_sentinels_hide_nothing(service: SentinelService) -> None:
    """One that answers is enough to find the master; one that hangs costs a moment only."""
    with ExitStack() as stack:
        for sentinel in service.sentinels[:2]:
            stack.enter_context(sentinel.paused())
        async with client_of(service, "a", patience=3.0) as locks, locks.lock("hidden"):
            assert port_of(locks) is not None


async def test_sentinels_are_part_of_a_diagnosis(service: SentinelService) -> None:
    async with client_of(service, "a") as locks:
        assert isinstance(locks.backend, SentinelBackend)
        first, *_ = await locks.backend.diagnose()
        assert first.found == f"3 of 3 answer, the master is 127.0.0.1:{service.master.port}"


async def test_a_sentinel_that_hangs_holds_nobody_up(service: SentinelService) -> None:
    """The others have spoken: it gets as long again, not all the time that there is."""
    sentinels = replace(Sentinels.from_url(service.url), patience=60.0)
    with service.sentinels[1].paused():
        async with asyncio.timeout(10):
            answers = await sentinels.ask()
    assert [isinstance(answer, Told) for answer in answers] == [True, False, True]


async def test_the_newest_configuration_is_believed(service: SentinelService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was cut off names an old master; the largest epoch wins, wherever it is in the list."""
    sentinels = Sentinels.from_url(service.url)
    told = iter([Told(7, "old", 1), Told(9, "new", 2), OSError("away")])

    async def ask(self: Sentinels, sentinel: object) -> object:
        return next(told)

    monkeypatch.setattr(Sentinels, "_ask", ask)
    assert await sentinels.master() == Told(9, "new", 2)


async def found_by(service: SentinelService, *further: str) -> bool:
    """Tell whether a user of the sentinels with the documented rights, and *further* ones, finds and watches."""
    for sentinel in service.sentinels:
        ask(sentinel.port, " ".join((*sentinel_acl_line("watcher", "pw"), *further)))
    url = f"{service.url}?sentinel_username=watcher&sentinel_password=pw"
    backend = SentinelBackend.from_url(url, patience=1.0)
    try:
        await backend.open(lambda call: None)
        await until(lambda: all(node.peer for node in backend._watching), within=1.0)
    except (BackendUnavailableError, TimeoutError):
        return False
    finally:
        await backend.aclose()
    return True


@pytest.mark.parametrize("missing", ["", *WATCHING])
async def test_the_documented_rights_at_the_sentinels_are_enough_and_needed(
    service: SentinelService, missing: str
) -> None:
    """HELLO is always allowed."""
    if missing in ("", "hello"):
        assert await found_by(service)
    else:
        assert not await found_by(service, f"-{missing}")


async def test_the_only_one_left_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the others are down is known at once, and no reason to be impatient with it."""
    answered = asyncio.Event()

    async def ask(self: Sentinels, sentinel: Address) -> object:
        if sentinel.host != "slow":
            return OSError("refused")
        await answered.wait()
        return Told(1, "h", 1)

    monkeypatch.setattr(Sentinels, "_ask", ask)
    asyncio.get_running_loop().call_later(0.3, answered.set)
    assert await Sentinels.from_url("redis+sentinel://a,slow,b/m1").master() == Told(1, "h", 1)


@pytest.mark.parametrize("what", ["service", "sentinels"])
async def test_what_cannot_be_found_is_said(service: SentinelService, what: str) -> None:
    """An unknown service by its name; no sentinel at all by the reason."""
    url = service.url.replace("/m1/", "/m2/")
    if what == "sentinels":
        url = "redis+sentinel://127.0.0.1:1,127.0.0.1:2/m2/0"
    with pytest.raises(BackendUnavailableError, match=r"m2.*no sentinel names a master"):
        await aiodlock.connect(url, patience=1.0).start()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis+sentinel://h2,h1:7000/m1/4", "redis+sentinel://h1:7000,h2:26379/m1/4"),
        ("redis+sentinel://u:p@h1/m1", "redis+sentinel://h1:26379/m1/0"),
        ("redis+sentinel://[::1]:7000,[::2]/m1/0", "redis+sentinel://[::1]:7000,[::2]:26379/m1/0"),
        ("rediss+sentinel://u:p@h1/m1?sentinel_password=q", "rediss+sentinel://h1:26379/m1/0"),
    ],
)
def test_an_address_names_sorted_sentinels_and_no_secret(url: str, address: str) -> None:
    assert SentinelBackend.from_url(url).address == address


def test_who_is_let_in_where() -> None:
    """User and password of the URL are for the servers, those of its options for the sentinels."""
    both = "redis+sentinel://u:p@h1,h2/m1?sentinel_username=su&sentinel_password=sp"
    found = Sentinels.from_url(both)
    assert found.server.credentials is not None
    assert found.server.credentials() == ("u", "p")
    assert [sentinel.credentials and sentinel.credentials() for sentinel in found.sentinels] == [("su", "sp")] * 2
    assert Sentinels.from_url("redis+sentinel://u:p@h1/m1").sentinels[0].credentials is None
    assert "sp" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://h1,h2",
        "redis+sentinel:///m1/0",
        "redis+sentinel://:s3cret@h1,,h2/m1/0",
        "redis+sentinel://:s3cret@h1:port/m1/0",
        "redis+sentinel://:s3cret@h1/m1/0?retry=3",
        "redis+sentinel://:s3cret@h1/m1/x",
    ],
)
def test_a_url_that_cannot_work_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        aiodlock.connect(url)
    assert "s3cret" not in str(caught.value)


@contextmanager
def tls_service() -> Iterator[tuple[TlsRedisServer, int]]:
    """A master and a sentinel that speak TLS to each other and to everybody; yields it and the sentinel's port."""
    (port,) = free_ports(1)
    with TlsRedisServer() as master:
        sentinel = RedisSentinel(master=master.tls_port, service="m1", down_after=10)
        files = {"cert-file": "server.crt", "key-file": "server.key", "ca-cert-file": "ca.crt"}
        options = [f"tls-{name} {master.directory / file}" for name, file in files.items()]
        with (sentinel.directory / "sentinel.conf").open("a") as config:
            config.write("\n".join([*options, f"tls-port {port}", "tls-replication yes", "tls-auth-clients no", ""]))
        with sentinel:
            yield master, port


async def test_tls_leads_to_sentinels_and_servers() -> None:
    """By the same authority; without it nobody is believed."""
    require(TlsRedisServer)
    require(RedisSentinel)
    with tls_service() as (master, port):
        url = f"rediss+sentinel://127.0.0.1:{port}/m1/0"
        async with aiodlock.connect(f"{url}?ssl_ca_certs={master.authority}") as locks, locks.lock("k"):
            assert port_of(locks) == master.tls_port
        with pytest.raises(BackendUnavailableError, match="certificate verify failed"):
            await aiodlock.connect(url).start()


# --- cancels -------------------------------------------------------------------------------------------------


def connections(service: SentinelService) -> list[str]:
    """Return our connections that the servers and sentinels see."""
    lists = [ask(server.port, "CLIENT LIST").decode() for server in (*service.servers, *service.sentinels)]
    return [line for text in lists for line in text.splitlines() if "name=aiodlock " in line]


async def visit(service: SentinelService) -> None:
    async with client_of(service, "a", min_replicas=1) as locks, locks.lock("cancelled", ttl=30, wait=10):
        await asyncio.sleep(0.005)


async def cancel_at_many_moments(service: SentinelService) -> int:
    """Cancel a visit after more and more time, until one is over before; return how many were cancelled."""
    for moment in range(1000):
        visiting = asyncio.create_task(visit(service))
        await asyncio.wait({visiting}, timeout=moment * 0.0005)
        if not visiting.cancel():
            return moment
        await asyncio.wait({visiting})
        assert visiting.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
    raise AssertionError("it is never over")


async def test_a_visit_cancelled_at_any_moment_leaves_nothing(service: SentinelService) -> None:
    """While it looks for the master, connects, subscribes, joins, holds, leaves or closes."""
    assert await cancel_at_many_moments(service) > 5
    await until(lambda: not connections(service))
    async with client_of(service, "b") as locks, locks.lock("cancelled", wait=0):
        assert [row.owner async for row in locks.inspect("cancelled")] == ["b"]


async def test_a_client_that_forgets_its_watchers_is_found(
    service: SentinelService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    forgotten: list[Node] = []

    async def aclose(self: SentinelBackend) -> None:
        forgotten.extend(self._watching)
        await RedisBackend.aclose(self)

    monkeypatch.setattr(SentinelBackend, "aclose", aclose)
    with pytest.raises(AssertionError):
        await cancel_at_many_moments(service)
    for node in forgotten:
        await node.aclose()


# --- failover ------------------------------------------------------------------------------------------------


async def test_holds_and_waiters_go_on_at_the_new_master(service: SentinelService) -> None:
    """The master is killed: what its replica has goes on, and whoever waits is called there."""
    async with client_of(service, "a") as mine, client_of(service, "b") as other:
        hold = await mine.lock("goes-on", ttl=30).acquire()
        waiter = asyncio.create_task(other.lock("goes-on", ttl=30).acquire())
        await until(lambda: any(place.answered for place in other._at_work().places.values()))
        old = service.master
        await asyncio.to_thread(old.crash)
        new = await asyncio.to_thread(service.replaced, old)
        await until(lambda: port_of(mine) == port_of(other) == new.port)
        await hold.extend(30)
        assert not waiter.done()
        await hold.release()
        async with asyncio.timeout(10):
            next_hold = await waiter
        assert next_hold.fence > hold.fence
        await next_hold.release()


async def test_a_planned_failover_is_followed(service: SentinelService) -> None:
    """An operator's, with everybody alive: the demoted server is left, and a hold survives it."""
    async with client_of(service, "a") as locks, locks.lock("planned", ttl=30) as hold:
        new = await asyncio.to_thread(service.fail_over)
        await until(lambda: port_of(locks) == new.port)
        await hold.extend(30)


async def follows_a_frozen_master(service: SentinelService) -> bool:
    """Freeze the master; tell whether a patient client hears of the new one in time, and stays with it."""
    async with client_of(service, "a", patience=60.0) as locks:
        old = service.master
        with old.paused():
            new = await asyncio.to_thread(service.replaced, old)
            try:
                await until(lambda: port_of(locks) == new.port, within=5)
            except TimeoutError:
                return False
            hold: Hold = await locks.lock("frozen", ttl=30).acquire(10)
        await hold.extend(30)  # the old one runs again, and believes to be the master
        assert port_of(locks) == new.port
        await hold.release()
    return True


async def test_a_frozen_master_is_left_when_the_sentinels_say_so(service: SentinelService) -> None:
    """Its connections stay open and silent; the sentinels tell long before the client's patience ends."""
    assert await follows_a_frozen_master(service)


@pytest.mark.long
async def test_a_client_that_does_not_listen_to_the_sentinels_is_found(
    service: SentinelService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(SentinelBackend, "_told", lambda self, push, via: None)
    assert not await follows_a_frozen_master(service)


# --- under load ----------------------------------------------------------------------------------------------


def failover_under_load(service: SentinelService, key: str, *, fault: str, min_replicas: int) -> list[Event]:
    """Let four processes contend, let the master die or freeze, and go on until each has been inside again.

    Then the old one comes back, believes to be the master, and answers what was sent to it while it was frozen.
    """
    arguments = {"url": service.url, "key": key, "min_replicas": min_replicas}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker("tests.integration.redis.contenders:contend", who=f"p{n}", **arguments))
            for n in range(4)
        ]
        for worker in workers:
            worker.await_event("left", within=30, count=3)
        old = service.master
        getattr(old, fault)()
        service.replaced(old)
        _await_all(workers)
        old.start() if fault == "crash" else old.resume()
        _await_all(workers)
    return [event for worker in workers for event in worker.events()]


def _await_all(workers: list[Worker]) -> None:
    """Return when each of them has been inside three more times."""
    for worker in workers:
        seen = sum(event.what == "left" for event in worker.events())
        worker.await_event("left", within=40, count=seen + 3)


@pytest.mark.parametrize("fault", ["crash", pytest.param("pause", marks=pytest.mark.long)])
@pytest.mark.parametrize("min_replicas", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_failover_under_load_keeps_everybody_apart(service: SentinelService, fault: str, min_replicas: int) -> None:
    """Nobody is inside beside another, the fence grows, and everybody gets in again.

    Its broken twin, a failover that loses a write, is in test_min_replicas.py.
    """
    key = f"load-{fault}-{min_replicas}"
    history = stays(failover_under_load(service, key, fault=fault, min_replicas=min_replicas))
    assert {stay.who for stay in history} == {"p0", "p1", "p2", "p3"}
    assert check_exclusion(history) == []
    assert check_fencing(history) == []
