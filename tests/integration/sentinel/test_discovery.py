"""Sentinel: the master is found, over TLS and with few rights too; what cannot be found is said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

import aiodlock
from aiodlock import BackendUnavailableError
from aiodlock.backends.redis.acl import WATCHING, sentinel_acl_line
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.discovery import Sentinels, Told
from aiodlock.backends.redis.sentinel import SentinelBackend
from aiodlock.errors import ConfigurationError
from aiodlock.testing.servers import RedisSentinel, SentinelService, TlsRedisServer, free_ports, require
from aiodlock.testing.servers.resp import ask
from tests.integration.redis.conftest import until
from tests.integration.sentinel.conftest import client_of, port_of
from tests.integration.told import meet_when_closing


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
        ask(sentinel.port, *sentinel_acl_line("watcher", "pw"), *further)
    url = f"{service.url}?sentinel_username=watcher&sentinel_password=pw"
    backend = SentinelBackend.from_url(url)
    try:
        await backend.open(lambda call: None)
        await until(lambda: all(node.peer or "NOPERM" in node._down for node in backend._watching))
    except BackendUnavailableError:
        return False
    else:
        return all(node.peer for node in backend._watching)
    finally:
        await backend.aclose()


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


async def test_connections_are_closed_together(service: SentinelService, monkeypatch: pytest.MonkeyPatch) -> None:
    """To three sentinels, and two to the master; each may wait a while for a server that is frozen."""
    async with client_of(service, "a", min_replicas=1) as locks:
        assert isinstance(locks.backend, SentinelBackend)
        watching = locks.backend._watching
        await until(lambda: all(node.peer for node in watching))
        meet_when_closing(monkeypatch, 5)


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
