"""Checks at connect: what a real server says of itself, as events and by `aiodlock doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import aiodlock
from aiodlock.backends.redis.acl import COMMANDS, CONFIRMING, LOOKING, STOCKING, acl_line, sentinel_acl_line
from aiodlock.cli.doctor import examine
from aiodlock.cli.session import Stop
from aiodlock.events import Event, SetupDoubted
from aiodlock.testing.servers import RedisReplica, RedisServer
from tests.integration.redis.conftest import Client, until

Connect = Callable[..., Awaitable[Client]]

EVICTING = ("--maxmemory", "20mb", "--maxmemory-policy", "volatile-lru")


async def levels_of(client: Client) -> dict[str, str]:
    return {finding.what: finding.level for finding in await client.backend.diagnose()}


async def test_a_server_as_it_is_installed_is_well(client: Client) -> None:
    """And looking changes nothing on it."""
    before = await client.do("DBSIZE")
    assert await levels_of(client) == dict.fromkeys(["version", "memory", "replicas", "min-replicas", "rights"], "ok")
    assert await client.do("DBSIZE") == before


async def test_a_server_that_throws_keys_away_is_an_event_at_connect() -> None:
    """Whoever listens hears it once, with what to do; whoever does not costs the server nothing."""
    heard: list[Event] = []
    with RedisServer(arguments=EVICTING) as own:
        async with aiodlock.connect(own.url, on_event=heard.append) as locks:
            await until(lambda: bool(heard))
            await locks.ping()
        assert [event.what for event in heard if isinstance(event, SetupDoubted)] == ["memory"]
        assert isinstance(heard[0], SetupDoubted)
        assert heard[0].severe
        assert "noeviction" in heard[0].advice


async def test_a_client_closed_at_once_is_not_held_up_by_its_checks() -> None:
    heard: list[Event] = []
    with RedisServer(arguments=EVICTING) as own:
        async with asyncio.timeout(5), aiodlock.connect(own.url, on_event=heard.append):
            pass
    assert all(isinstance(event, SetupDoubted) for event in heard)


async def test_doctor_fails_on_a_server_that_throws_keys_away(capsys: pytest.CaptureFixture[str]) -> None:
    with RedisServer(arguments=EVICTING) as own, pytest.raises(Stop, match="1 of these checks failed"):
        await examine(aiodlock.connect(own.url))
    assert "error    memory       volatile-lru beyond 20,971,520 bytes" in capsys.readouterr().out


async def test_replicas_are_counted(connect: Connect) -> None:
    """One is there, two are asked for; and the server itself would go on without any."""
    with RedisServer() as master, RedisReplica(of=master.port):
        plain, asking = await connect(master.url), await connect(master.url, min_replicas=2)
        levels = await levels_of(plain)
        assert (levels["replicas"], levels["min-replicas"]) == ("ok", "warning")
        levels = await levels_of(asking)
        assert (levels["replicas"], levels["min-replicas"]) == ("error", "ok")
        for client in (plain, asking):
            await client.backend.aclose()


# --- rights --------------------------------------------------------------------------------------------------


async def as_user(client: Client, connect: Connect, server: RedisServer, *further: str, **rights: bool) -> Client:
    assert await client.do(*acl_line("doctored", "pw", **rights), *further) == b"OK"
    return await connect(server.url.replace("//", "//doctored:pw@"), min_replicas=int(rights.get("confirming", False)))


async def test_with_the_documented_rights_nothing_is_missing(
    client: Client, connect: Connect, server: RedisServer
) -> None:
    """What this user may not ask for is said, and is no fault."""
    user = await as_user(client, connect, server, confirming=True)
    findings = {finding.what: finding for finding in await user.backend.diagnose()}
    assert findings["rights"].level == "ok"
    assert "may not ask" in findings["memory"].found
    assert "may not ask" in findings["replicas"].found


async def test_with_two_more_rights_everything_is_seen(client: Client, connect: Connect, server: RedisServer) -> None:
    user = await as_user(client, connect, server, looking=True)
    assert not [finding for finding in await user.backend.diagnose() if "may not ask" in finding.found]


ALWAYS = {"ping", "hello", "select", "subscribe"}  # refused at connect, not later


@pytest.mark.parametrize("missing", sorted({*COMMANDS, *CONFIRMING} - ALWAYS))
async def test_a_missing_right_is_named(client: Client, connect: Connect, server: RedisServer, missing: str) -> None:
    user = await as_user(client, connect, server, f"-{missing}", confirming=True)
    *_, rights = await user.backend.diagnose()
    assert (rights.level, rights.found) == ("error", f"missing: {missing}")


@pytest.mark.parametrize("missing", LOOKING)
async def test_each_of_the_two_more_rights_is_needed(
    client: Client, connect: Connect, server: RedisServer, missing: str
) -> None:
    user = await as_user(client, connect, server, f"-{missing}", looking=True)
    assert [finding.what for finding in await user.backend.diagnose() if "may not ask" in finding.found]


def test_the_page_shows_the_line_that_is_tested() -> None:
    page = (Path(__file__).parents[3] / "docs/guides/redis-setup.md").read_text()
    assert f"\n{' '.join(acl_line('locker', 'secret'))}\n" in page
    assert f"\n{' '.join(sentinel_acl_line('watcher', 'secret'))}\n" in page
    assert f"add `+{CONFIRMING[0]}`" in page
    for further in (LOOKING, STOCKING):
        assert f"add `{' '.join(f'+{name}' for name in further)}`" in page
