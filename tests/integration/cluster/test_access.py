"""Getting into a cluster: users with few rights, and what cannot work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import aiodlock
from aiodlock import AcquireTimeoutError, LockClient, Poll, Retry
from aiodlock._core.line import LineId, Ticket
from aiodlock.backends.redis.acl import CLUSTER_COMMANDS, acl_line
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.errors import BackendError, BackendUnavailableError, ConfigurationError
from aiodlock.testing.servers import RedisCluster, RedisServer
from tests.faults.twins import TWINS
from tests.fuzz.twins import broken
from tests.integration.cluster.conftest import Member, elsewhere

Connect = Callable[..., Awaitable[Member]]
Make = Callable[..., Ticket]


def tell_all(cluster: RedisCluster, *words: str) -> None:
    for node in cluster.nodes:
        assert node.ask(*words) == b"OK"


@pytest.fixture
def user(cluster: RedisCluster) -> str:
    """A user with the documented rights; returns its URL."""
    tell_all(cluster, *acl_line("locker", "s3cret", cluster=True))
    tell_all(cluster, "SCRIPT", "FLUSH")
    return cluster.url.replace("://", "://locker:s3cret@")


async def use_everything(limited: Member, cluster: RedisCluster, ticket: Make) -> None:
    holder, waiter = ticket(), ticket()
    latch = LineId("latch", waiter.id)
    for one in (holder, waiter):
        await limited.backend.join(one)
    slot = limited.slot(holder.line)
    moving = cluster.moving(slot, await elsewhere(cluster, slot))
    carry = await asyncio.to_thread(moving.__enter__)
    try:
        await asyncio.to_thread(carry)
        await limited.backend.leave(holder)
        assert len(await limited.backend.inspect("*", f"*{holder.line.key}")) == 1
        assert "Called" in {type(call).__name__ for call in await limited.told()}
        for operation in ("a", "b"):
            await limited.backend.latch(latch, count=2, down=1, operation=operation, ttl=0.05)
        owner = await asyncio.to_thread(cluster.owner, limited.slot(latch))
        while await asyncio.to_thread(owner.ask, "EXISTS", limited.key(latch).decode()):
            pass
        await limited.backend.latch(latch, count=2, down=1, operation="c", ttl=0.05)
    finally:
        await asyncio.to_thread(moving.__exit__, None, None, None)


async def test_the_documented_rights_are_enough(
    connect: Connect, cluster: RedisCluster, user: str, ticket: Make
) -> None:
    await use_everything(await connect(user), cluster, ticket)


@pytest.mark.parametrize("command", ["asking", "cluster|slots", "scan", "spublish", "ssubscribe"])
async def test_none_of_a_clusters_rights_is_too_much(
    connect: Connect, cluster: RedisCluster, user: str, ticket: Make, command: str
) -> None:
    """Each one missing is noticed, by opening or by the first use."""
    assert command in CLUSTER_COMMANDS
    tell_all(cluster, "ACL", "SETUSER", "locker", f"-{command}")
    with pytest.raises((BackendError, AssertionError)):
        await use_everything(await connect(user), cluster, ticket)


async def test_a_wrong_password_is_said_and_not_repeated(connect: Connect, user: str) -> None:
    with pytest.raises(BackendError, match="WRONGPASS") as caught:
        await connect(user.replace("s3cret", "gu3ss"))
    assert "gu3ss" not in str(caught.value)
    assert not isinstance(caught.value, BackendUnavailableError)


async def test_a_server_that_is_no_cluster_says_so() -> None:
    with RedisServer() as single, pytest.raises(BackendError, match="cluster support disabled"):
        await aiodlock.connect(f"redis+cluster://127.0.0.1:{single.port}").start()


async def test_a_client_of_one_server_is_told_that_it_is_one_of_a_cluster(cluster: RedisCluster) -> None:
    async with aiodlock.connect(f"redis://127.0.0.1:{cluster.nodes[0].port}") as locks:
        with pytest.raises(BackendError, match=r"use redis\+cluster://"):
            for number in range(20):
                await locks.backend.inspect("lock", f"k{number}")


async def test_who_may_not_listen_is_told_when_it_connects(connect: Connect, cluster: RedisCluster, user: str) -> None:
    """And can say that it does not want to."""
    tell_all(cluster, "ACL", "SETUSER", "locker", "-ssubscribe", "-spublish")
    with pytest.raises(BackendError, match="NOPERM"):
        await connect(user)
    deaf = await connect(user, pushes=False)
    assert not deaf.backend.capabilities.pushes
    await deaf.backend.ping()


@pytest.fixture
def deaf(cluster: RedisCluster, user: str) -> str:
    """A user who may neither listen nor call; returns its URL."""
    tell_all(cluster, "ACL", "SETUSER", "locker", "-ssubscribe", "-spublish", "resetchannels")
    return user


async def contend(url: str, waiting: Poll | Retry, *, wait: float) -> list[BaseException | None]:
    """Let four tasks of two clients have a lock by turns, one at a time; return how each of them ended."""
    inside: list[str] = []

    async def visit(locks: LockClient) -> None:
        for _ in range(3):
            async with locks.lock("deaf", ttl=3.0, wait=wait):
                inside.append(locks.name)
                assert len(inside) == 1
                await asyncio.sleep(0.01)
                inside.remove(locks.name)

    async with (
        aiodlock.connect(url, name="a", pushes=False, waiting=waiting) as one,
        aiodlock.connect(url, name="b", pushes=False, waiting=waiting) as two,
    ):
        ends = await asyncio.gather(*(visit(locks) for locks in (one, one, two, two)), return_exceptions=True)
        assert [row async for row in one.inspect("deaf")] == []
    return ends


@pytest.mark.parametrize("waiting", [Poll(0.05), Retry(times=1000, interval=0.02)], ids=lambda one: type(one).__name__)
async def test_locks_are_handed_on_without_pub_sub(deaf: str, waiting: Poll | Retry) -> None:
    """By looking; none is left out."""
    assert await contend(deaf, waiting, wait=40.0) == [None] * 4


async def test_who_neither_hears_nor_looks_is_found(deaf: str) -> None:
    """The broken twin waits until its time is over."""
    with broken(TWINS["never_looks"]):
        ends = await contend(deaf, Poll(0.05), wait=0.5)
    assert AcquireTimeoutError in map(type, ends)


async def test_opening_without_a_server_raises_and_leaves_nothing() -> None:
    with pytest.raises(BackendUnavailableError, match="no server of the cluster answers"):
        await aiodlock.connect("redis+cluster://127.0.0.1:1,127.0.0.1:2").start()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("redis+cluster://", "without hosts"),
        ("redis+cluster://:s3cret@h1,,h2", "empty one"),
        ("redis+cluster://:s3cret@h1/1", "only database 0"),
        ("redis+cluster://:s3cret@h1:port", "cannot be used"),
        ("redis+cluster://:s3cret@h1?retry=3", "not supported: retry"),
    ],
)
def test_a_url_that_cannot_work_is_refused_and_not_repeated(url: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint) as caught:
        aiodlock.connect(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis+cluster://u:p@h2:2,h1:1/0", "redis+cluster://h1:1,h2:2"),
        ("redis+cluster://h", "redis+cluster://h:6379"),
        ("rediss+cluster://h:1", "rediss+cluster://h:1"),
    ],
)
def test_an_address_names_the_seeds_and_no_secret(url: str, address: str) -> None:
    assert ClusterBackend.from_url(url).address == address
