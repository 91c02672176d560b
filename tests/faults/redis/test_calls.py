"""Calls that are lost, doubled, or cut off between the leave and the call: everybody gets his turn once."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.testing.processes import WorkerFailedError
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
from tests.faults.crew import Crew, judge
from tests.faults.redis.admin import left_on
from tests.faults.redis.calls import repeated
from tests.faults.redis.clients import through, two_clients
from tests.faults.twins import TWINS
from tests.faults.visits import until_in_line
from tests.fuzz.twins import broken


def contend(proxy: FaultProxy, *, calls: int, twin: str = "", starves: float = 10.0) -> tuple[str, list[str]]:
    """Have two processes contend for a lock, and each call arrive so many times; return the key and what is wrong."""
    proxy.edit_replies(repeated(calls))
    with Crew("contend", [through(proxy)] * 2, kind="lock", tasks=2, ttl=1.2, twin=twin) as crew:
        crew.await_more(4, within=starves)
        return crew.key, judge(crew.finish())


@pytest.mark.parametrize("calls", [0, 2])
def test_calls_that_are_all_lost_or_all_doubled(server: RedisServer, proxy: FaultProxy, calls: int) -> None:
    """Lost ones cost time: a third of the waiting life for each turn. Doubled ones cost nothing."""
    key, wrong = contend(proxy, calls=calls)
    assert wrong == []
    assert asyncio.run(left_on(server, key)) == []


def test_lost_calls_show_who_never_looks(proxy: FaultProxy) -> None:
    """The broken twin waits for a call that does not come."""
    with pytest.raises(WorkerFailedError, match="without event 'inside'"):
        contend(proxy, calls=0, twin="never_looks", starves=2.0)


def test_doubled_calls_show_who_believes_each_of_them(proxy: FaultProxy) -> None:
    """The broken twin hands its place to two."""
    _, wrong = contend(proxy, calls=2, twin="every_call_counts")
    assert any(line.startswith("exclusion") for line in wrong)


async def cut_between_leave_and_call(server: RedisServer, proxy: FaultProxy) -> None:
    """Lose the call of a waiter together with its connection."""
    async with two_clients(server, proxy) as (far, near):
        hold = await near.lock("cut", ttl=60).acquire()
        waiter = asyncio.create_task(far.lock("cut", ttl=60).acquire())
        await until_in_line(near, "cut", 2)
        await far.ping()  # replies come in order: it knows that it waits, and has no join to repeat
        proxy.half_open(requests=False)
        await hold.release()
        proxy.reset()
        proxy.heal()
        try:
            async with asyncio.timeout(2):
                await (await waiter).release()
        finally:
            waiter.cancel()


@pytest.mark.usefixtures("looking_is_far_off")
async def test_a_call_that_is_cut_off_is_found_after_the_reconnect(server: RedisServer, proxy: FaultProxy) -> None:
    await cut_between_leave_and_call(server, proxy)
    assert await left_on(server, "cut") == []


@pytest.mark.usefixtures("looking_is_far_off")
async def test_a_cut_shows_who_does_not_look_after_the_reconnect(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin is still waiting when everybody else would have got in."""
    with broken(TWINS["reconnects_blindly"]), pytest.raises(TimeoutError):
        await cut_between_leave_and_call(server, proxy)
    assert await left_on(server, "cut") == []
