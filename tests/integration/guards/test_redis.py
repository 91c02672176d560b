"""The guard for data in Redis: an older fence is refused in one step with the write, whatever the numbers look like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

import aiodlock
from aiodlock.errors import ConfigurationError, LockLostError
from aiodlock.guards import redis as guards
from aiodlock.guards.redis import RedisGuard
from aiodlock.testing.history import check_accepted
from aiodlock.testing.servers import RedisServer, require

LARGEST = (1 << 63) - 1


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as running:
        yield running


@pytest.fixture
async def data(server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(server.url) as redis:
        await redis.flushall()
        yield redis


async def test_a_later_fence_writes_and_an_older_one_is_refused(data: Redis) -> None:
    """The same one writes again; the refusal names both and changes nothing."""
    guard = RedisGuard(data)
    assert await guard.newest("k") == 0
    assert await guard.write("k", "SET", "first", fence=10) == b"OK"
    assert await guard.write("k", "SET", "second", fence=10) == b"OK"
    assert await guard.write("k", "APPEND", "!", fence=11) == 7
    with pytest.raises(LockLostError, match="fence 10 came after 11") as caught:
        await guard.write("k", "SET", "late", fence=10)
    assert caught.value.key == "k"
    assert await data.get("k") == b"second!"
    assert await guard.newest("k") == 11


async def test_neighbours_are_told_apart_where_a_float_cannot(data: Redis) -> None:
    """A number of Lua has 53 bits."""
    guard = RedisGuard(data)
    await guard.write("k", "SET", "new", fence=LARGEST)
    with pytest.raises(LockLostError):
        await guard.write("k", "SET", "old", fence=LARGEST - 1)
    await guard.write("small", "SET", "1", fence=9)
    await guard.write("small", "SET", "2", fence=10)  # as words of different length the other way round


async def accepted_of(server: RedisServer, fences: list[int]) -> list[int]:
    """Write with these fences, in their order, and return those that were let through."""
    accepted = []
    async with Redis.from_url(server.url) as data:
        await data.flushall()
        guard = RedisGuard(data)
        for fence in fences:
            try:
                await guard.write("k", "SET", fence, fence=fence)
            except LockLostError:
                continue
            accepted.append(fence)
    return accepted


FENCES = st.lists(st.integers(1, LARGEST), min_size=1, max_size=12)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FENCES)
def test_what_is_accepted_is_what_a_guard_in_python_accepts(server: RedisServer, fences: list[int]) -> None:
    """Any order of any fences."""
    newest, expected = 0, []
    for fence in fences:
        if fence >= newest:
            newest = fence
            expected.append(fence)
    accepted = asyncio.run(accepted_of(server, fences))
    assert accepted == expected
    assert check_accepted(accepted) == []


def test_fences_compared_as_numbers_of_lua_are_found(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: doubles."""
    register = Redis.register_script
    monkeypatch.setattr(
        Redis,
        "register_script",
        lambda self, script: register(self, script.replace("ARGV[1] < newest", "tonumber(ARGV[1]) < tonumber(newest)")),
    )
    assert check_accepted(asyncio.run(accepted_of(server, [LARGEST, LARGEST - 1])))


async def test_a_command_that_fails_moves_no_fence(data: Redis) -> None:
    guard = RedisGuard(data)
    await guard.write("k", "SET", "text", fence=1)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await guard.write("k", "RPUSH", "x", fence=2)
    assert await guard.newest("k") == 1


@pytest.mark.parametrize("fence", [0, -1, 1 << 63, 1.5, "7", True, None])
async def test_what_is_no_fence_is_refused_before_any_write(data: Redis, fence: object) -> None:
    with pytest.raises(ConfigurationError, match="give the fence of a hold"):
        await RedisGuard(data).write("k", "SET", "x", fence=fence)  # type: ignore[arg-type]
    assert await data.dbsize() == 0


@pytest.mark.parametrize("key", ["k", "{tag}:k", "a{b", "sku:42", "{a}{b}"])
def test_the_fence_lives_in_the_slot_of_its_key(key: str) -> None:
    """One script may touch both, in a cluster too."""
    assert key_slot(RedisGuard.fence_key(key).encode()) == key_slot(key.encode())


async def test_a_holder_that_slept_through_its_lease_is_refused(data: Redis, server: RedisServer) -> None:
    """With real locks: the fence of a hold is what the guard wants."""
    guard = RedisGuard(data)
    async with aiodlock.connect(server.url) as sleepy, aiodlock.connect(server.url) as quick:
        old = await sleepy.lock("k", ttl=0.1, renew=False).acquire()
        async with quick.lock("k") as new:
            await guard.write("data", "SET", "quick", fence=new.fence)
        with pytest.raises(LockLostError):
            await guard.write("data", "SET", "sleepy", fence=old.fence)
    assert await data.get("data") == b"quick"


def test_the_module_needs_no_driver_to_be_imported() -> None:
    assert "redis" not in vars(guards)
