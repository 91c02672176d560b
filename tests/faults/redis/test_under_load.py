"""Several processes contend while their connections and the server's scripts are taken away."""

from __future__ import annotations

import asyncio

import pytest

import aiodlock
from aiodlock.errors import AcquireTimeoutError
from aiodlock.testing.history import TryLock, check_linearizable, operations
from aiodlock.testing.processes import WorkerFailedError
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
from tests.faults.crew import Crew, judge
from tests.faults.redis.admin import ask, left_on
from tests.faults.redis.clients import through
from tests.faults.twins import TWINS
from tests.faults.visits import KINDS
from tests.fuzz.twins import broken
from tests.integration.redis.scripts import load_scripts

KILL = ("CLIENT", "KILL", "TYPE", "pubsub")  # every client of ours has subscribed
FLUSH = ("SCRIPT", "FLUSH")


@pytest.fixture
def far(server: RedisServer, proxy: FaultProxy) -> str:
    """The server from some way off, so that there is always something on its way that can be lost."""
    proxy.delay(requests=0.002, replies=0.002)
    return through(proxy)


def harm(
    server: RedisServer, crew: Crew, fault: tuple[str, ...], *, times: int, what: str = "inside", starves: float = 10.0
) -> None:
    """Do *fault* to the server again and again; in between everybody has to get on."""
    crew.await_more(5, what)
    for _ in range(times):
        ask(server, *fault)
        crew.await_more(2, what, within=starves)


@pytest.mark.parametrize(
    "kind", ["lock", *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS if kind != "lock")]
)
def test_connections_are_killed_and_scripts_flushed_again_and_again(server: RedisServer, far: str, kind: str) -> None:
    """Nobody is inside beside a holder, nobody starves, nothing is left."""
    with Crew("contend", [far] * 3, kind=kind, tasks=3, ttl=30.0) as crew:
        for fault in (KILL, FLUSH):
            harm(server, crew, fault, times=10)
        events = crew.finish()
    assert judge(events, kind=kind) == []
    assert asyncio.run(left_on(server, crew.key)) == []


def test_killed_connections_show_who_does_not_repeat_a_leave(server: RedisServer, far: str) -> None:
    """The broken twin: its ticket stays, and everybody waits for the end of its life."""
    with (
        Crew("contend", [far] * 3, kind="lock", tasks=1, ttl=30.0, twin="leaves_once") as crew,
        pytest.raises(WorkerFailedError, match="without event 'inside'"),
    ):
        harm(server, crew, KILL, times=100, starves=1.5)


def test_tries_on_killed_connections_fit_one_order(server: RedisServer, far: str) -> None:
    """Whatever was lost on the way: who heard yes had the lock, who heard no found it taken."""
    with Crew("attempt", [far] * 3, ttl=30.0) as crew:
        harm(server, crew, KILL, times=10, what="returned")
        history = operations(crew.finish())
    assert check_linearizable(history, model=TryLock()) == []
    assert {operation.result for operation in history} == {True, False}
    assert asyncio.run(left_on(server, crew.key)) == []


@pytest.mark.long
def test_tries_show_who_believes_that_a_lost_leave_has_arrived(server: RedisServer, far: str) -> None:
    """The broken twin: it says that it has released, and the lock is still taken."""
    with Crew("attempt", [far] * 3, ttl=2.0, twin="leaves_once") as crew:
        harm(server, crew, KILL, times=30, what="returned")
        history = operations(crew.finish())
    assert [violation.rule for violation in check_linearizable(history, model=TryLock())] == ["linearizability"]


async def test_flushed_scripts_show_who_does_not_load_them_again(server: RedisServer) -> None:
    """The broken twin; the server knows the scripts when it comes."""
    load_scripts(server)
    with broken(TWINS["never_loads"]):
        async with aiodlock.connect(server.url) as locks:
            async with locks.lock("flushed"):
                ask(server, *FLUSH)
            with pytest.raises(AcquireTimeoutError):
                await locks.lock("flushed").acquire(0.3)
