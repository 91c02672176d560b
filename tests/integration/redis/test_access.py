"""Getting in: TLS, users with few rights, unix sockets, databases; and URLs that cannot work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aiodlock
from aiodlock import LockClient, Poll, Push, Retry
from aiodlock._core.line import Called, Inside, LineId, Ticket
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.acl import COMMANDS, acl_line
from aiodlock.backends.redis.address import Address
from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError, ConfigurationError
from aiodlock.testing.servers import RedisServer, TlsRedisServer, require
from tests.integration.redis.conftest import Client

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


# --- TLS ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsRedisServer]:
    require(TlsRedisServer)
    with TlsRedisServer() as server:
        yield server


async def test_tls_carries_verbs_and_calls(connect: Connect, tls: TlsRedisServer, ticket: Make) -> None:
    client = await connect(tls.url)
    holder, waiter = ticket(), ticket()
    await client.backend.join(holder)
    await client.backend.join(waiter)
    await client.backend.leave(holder)
    assert [type(call) for call in await client.told()][-1] is Called
    assert client.backend.address == tls.bare_url


async def test_a_server_with_an_unknown_certificate_is_refused(connect: Connect, tls: TlsRedisServer) -> None:
    for url in (tls.bare_url, f"{tls.bare_url}?ssl_ca_certs={tls.other_authority}"):
        with pytest.raises(BackendUnavailableError, match="certificate verify failed"):
            await connect(url)


async def test_checks_are_switched_off_only_knowingly(connect: Connect, tls: TlsRedisServer) -> None:
    for option in ("ssl_cert_reqs=none", "ssl_check_hostname=false"):
        with pytest.raises(ConfigurationError, match="unverified"):
            await connect(f"{tls.bare_url}?{option}")
    client = await connect(f"{tls.bare_url}?ssl_cert_reqs=none", unverified=True)
    await client.backend.ping()


# --- users -------------------------------------------------------------------------------------------------


@pytest.fixture
async def user(client: Client, server: RedisServer) -> str:
    """A user with the documented rights; returns its URL."""
    assert await client.do(*acl_line("locker", "s3cret/pw")) == b"OK"
    return server.url.replace("redis://", "redis://locker:s3cret%2Fpw@")


async def use_lines(client: Client, ticket: Make) -> None:
    first, second, third, fourth = (ticket(size=2, weight=weight) for weight in (1, 1, 2, 1))
    first = first.wishing(ttl=0.05)
    for one in (first, second, third, fourth):
        await client.backend.join(one)
    await client.backend.leave(fourth)
    await client.until_over(first)
    await client.backend.renew([second, third])
    await client.backend.change_weight(second, 1)
    await client.backend.change_size(first.line, 3)
    assert await client.backend.revoke(first.line, "go") == 2
    await client.backend.leave(third, bury=True)
    await client.backend.join(ticket(line=LineId("lock", "long" * 40)))
    assert len(await client.backend.inspect("*", f"*{first.line.key}")) == 1
    last, late = (ticket(line=LineId("lock", f"{first.line.key}-forgotten")) for _ in range(2))
    await client.backend.join(last)
    await client.bury(late, life=1e-6)
    await client.backend.leave(last)  # nothing is left to be remembered: the line begins anew
    for operation in ("a", "b"):
        await client.backend.latch(LineId("latch", "acl"), count=2, down=1, operation=operation, ttl=5.0)
    assert {"Called", "AskedToGo", "Opened"} <= {type(call).__name__ for call in await client.told()}


async def test_the_documented_rights_are_enough(
    connect: Connect, client: Client, user: str, ticket: Make, server: RedisServer
) -> None:
    await client.do("SCRIPT", "FLUSH")
    await use_lines(await connect(user), ticket)


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"hello"}))
async def test_none_of_the_documented_rights_is_too_much(
    connect: Connect, client: Client, user: str, ticket: Make, command: str
) -> None:
    """Each one missing is noticed, by opening or by the first use."""
    await client.do("SCRIPT", "FLUSH")
    await client.do("ACL", "SETUSER", "locker", f"-{command}")
    with pytest.raises((BackendError, AssertionError)):
        await use_lines(await connect(user.removesuffix("0") + "1"), ticket)


@pytest.fixture
async def deaf(client: Client, user: str) -> str:
    """A user who may neither listen nor call; returns its URL."""
    await client.do("ACL", "SETUSER", "locker", "-subscribe", "-publish", "resetchannels")
    return user


async def test_who_may_not_listen_is_told_how_to_do_without(deaf: str) -> None:
    with pytest.raises(BackendError, match=r"NOPERM.*pushes=False"):
        await aiodlock.connect(deaf, waiting=Poll(0.05)).start()


@pytest.mark.parametrize(
    "waiting", [Push(), Poll(0.05), Retry(times=1000, interval=0.02)], ids=lambda one: type(one).__name__
)
async def test_locks_are_handed_on_without_pub_sub(deaf: str, waiting: Push | Poll | Retry) -> None:
    """By looking: four tasks of two clients contend, one at a time and none left out."""
    inside: list[str] = []

    async def visit(locks: LockClient) -> None:
        for _ in range(3):
            async with locks.lock("deaf", ttl=3.0, wait=40.0):
                inside.append(locks.name)
                assert len(inside) == 1
                await asyncio.sleep(0.01)
                inside.remove(locks.name)

    settings: dict[str, Any] = {"pushes": False, "waiting": waiting}
    async with (
        aiodlock.connect(deaf, name="a", **settings) as one,
        aiodlock.connect(deaf, name="b", **settings) as two,
    ):
        await asyncio.gather(*(visit(locks) for locks in (one, one, two, two)))
        assert [row async for row in one.inspect("deaf")] == []


@pytest.mark.parametrize(
    "forbidden",
    ["KEYS *", "FLUSHALL", "CONFIG GET x", "CLIENT LIST", "GET other", "HGET other x", "SUBSCRIBE other", "EVAL x 0"],
)
async def test_the_documented_rights_are_not_more(connect: Connect, user: str, forbidden: str) -> None:
    limited = await connect(user)
    with pytest.raises(BackendError, match="NOPERM"):
        await limited.do(*forbidden.split())


@pytest.mark.parametrize("login", ["locker:wrong@", "nobody:x@"])
async def test_a_wrong_password_is_said_without_repeating_it(connect: Connect, user: str, login: str) -> None:
    url = f"redis://{login}{user.partition('@')[2]}"
    with pytest.raises(BackendError, match="WRONGPASS") as caught:
        await connect(url)
    assert login.rstrip("@") not in str(caught.value)
    assert not isinstance(caught.value, BackendUnavailableError | BackendDataError)


async def test_credentials_are_asked_for_at_every_connect(client: Client, user: str, server: RedisServer) -> None:
    answers: list[tuple[str, str] | Exception] = [("locker", "s3cret/pw"), OSError("vault away"), ("locker", "second")]

    def credentials() -> tuple[str, str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    address = Address(host="127.0.0.1", port=server.port, credentials=credentials)
    rotating = Client(RedisBackend(address))
    await rotating.backend.open(rotating.on_call)
    await client.do("ACL", "SETUSER", "locker", ">second", "<s3cret/pw")
    await client.do("CLIENT", "KILL", "USER", "locker")
    await rotating.reconnected.wait()
    await rotating.backend.ping()
    assert answers == []
    assert "s3cret" not in repr(address)
    await rotating.backend.aclose()


# --- places ------------------------------------------------------------------------------------------------


async def test_a_unix_socket_leads_to_the_same_lines(connect: Connect, tmp_path: Path, ticket: Make) -> None:
    path = tmp_path / "redis.sock"
    with RedisServer(arguments=("--unixsocket", str(path))) as own:
        by_socket, by_port = await connect(f"unix://{path}?db=2"), await connect(own.url.replace("/0", "/2"))
        holder, waiter = ticket(), ticket()
        await by_socket.backend.join(holder)
        await by_port.backend.join(waiter)
        await by_socket.backend.leave(holder)
        assert [type(call) for call in await by_port.told()] == [Called]
        assert by_socket.backend.address == f"unix://{path}?db=2"
        for client in (by_socket, by_port):
            await client.backend.aclose()


async def test_databases_are_apart(connect: Connect, server: RedisServer, ticket: Make) -> None:
    mine = ticket()
    clients = [await connect(server.url.replace("/0", f"/{db}")) for db in (0, 3)]
    answers = [await client.backend.join(mine) for client in clients]
    assert all(isinstance(answer, Inside) for answer in answers)
    assert clients[1].backend.address == f"redis://127.0.0.1:{server.port}/3"


async def test_the_connection_has_a_name(client: Client) -> None:
    assert await client.do("CLIENT", "GETNAME") == b"aiodlock"


# --- URLs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://:s3cret@localhost",
        "redis://:s3cret@localhost:port/0",
        "redis://:s3cret@localhost/0?retry=3",
        "redis://:s3cret@localhost/0?db=x",
        "rediss://:s3cret@localhost/0?ssl_ca_certs=/no/such/file",
        "rediss://:s3cret@localhost/0?ssl_nonsense=1",
    ],
)
def test_a_url_that_cannot_work_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisBackend.from_url(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", "redis://localhost:6379/0"),
        ("redis://u:p@h:7000/4", "redis://h:7000/4"),
        ("redis://[::1]:7000", "redis://[::1]:7000/0"),
        ("unix:///run/r.sock", "unix:///run/r.sock?db=0"),
    ],
)
def test_an_address_names_the_server_and_no_secret(url: str, address: str) -> None:
    assert RedisBackend.from_url(url).address == address
