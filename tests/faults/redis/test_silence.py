"""A link that is half open: both ends are there, and nothing arrives."""

from __future__ import annotations

import asyncio

import pytest

import aiodlock
from aiodlock.backends.redis import RedisBackend
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
from tests.faults.redis.admin import left_on
from tests.faults.redis.clients import through
from tests.faults.twins import TWINS
from tests.faults.visits import kept_by, until_in_line
from tests.fuzz.twins import broken
from tests.integration.told import shorten_patience

PATIENCE = 0.4  # instead of three seconds, when they are connected


async def fall_silent(server: RedisServer, proxy: FaultProxy, key: str) -> None:
    """Take the link of a parked waiter away without a word, until it is noticed; then the waiter must get in."""
    async with (
        aiodlock.connect(server.url, name="near") as near,
        aiodlock.connect(through(proxy), name="far", patience=60.0) as far,
    ):
        assert isinstance(far.backend, RedisBackend)
        shorten_patience(far.backend._node._link, PATIENCE)
        hold = await near.lock(key, ttl=60).acquire()
        waiter = asyncio.create_task(far.lock(key, ttl=60).acquire())
        await until_in_line(near, key, 2)
        await far.ping()
        proxy.half_open()
        try:
            await asyncio.to_thread(proxy.wait_until, lambda counts: counts.connections >= 2, within=20 * PATIENCE)
            proxy.heal()
            await hold.release()
            async with asyncio.timeout(10):
                await (await waiter).release()
            assert await kept_by(far) == []
        finally:
            proxy.heal()
            waiter.cancel()


@pytest.mark.usefixtures("looking_is_far_off")
async def test_a_half_open_link_is_noticed_and_replaced(server: RedisServer, proxy: FaultProxy) -> None:
    """By a question without an answer: within two and a third times the patience, seven seconds by default."""
    await fall_silent(server, proxy, "silent")
    assert await left_on(server, "silent") == []


@pytest.mark.usefixtures("looking_is_far_off")
async def test_silence_shows_who_takes_it_for_quiet(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin never asks."""
    with broken(TWINS["never_asks"]), pytest.raises(TimeoutError):
        await fall_silent(server, proxy, "silent twin")
