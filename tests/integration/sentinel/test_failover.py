"""A failover is followed: holds and waiters go on at the new master, alone and under load."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace

import pytest

from aiodlock import Hold
from aiodlock.backends.redis.sentinel import SentinelBackend
from aiodlock.testing.history import Event, Stay, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import SentinelService
from aiodlock.testing.servers.resp import ask
from tests.faults.leftovers import left_at
from tests.integration.redis.conftest import until
from tests.integration.sentinel.conftest import client_of, port_of


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


@pytest.mark.long  # on a busy machine the sentinels may need more than one election
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

CONTEND = "tests.integration.redis.contenders:contend"
TTL = 3.0


def failover_under_load(service: SentinelService, key: str, *, fault: str, min_replicas: int) -> list[Event]:
    """Let four processes contend, let the master die or freeze, and go on until each has been inside again.

    Then the old one comes back, believes to be the master, and answers what was sent to it while it was frozen.
    """
    arguments = {"url": service.url, "key": key, "ttl": TTL, "min_replicas": min_replicas}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(CONTEND, who=f"p{n}", **arguments)) for n in range(4)]
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["crash", pytest.param("pause", marks=pytest.mark.long)])
@pytest.mark.parametrize("min_replicas", [0, 1])
def test_a_failover_under_load_keeps_everybody_apart(service: SentinelService, fault: str, min_replicas: int) -> None:
    """Nobody is inside beside another, the fence grows, everybody gets in again, and nothing is left but for a lease.

    Without replicas that know of it nobody is promised to be alone while two servers believe to be the master; so there
    it is asked of each server by itself. The broken twin, a failover that loses a write, is in
    ../redis/test_lost_writes.py; that of the milder judge is below.
    """
    key = f"load-{fault}-{min_replicas}"
    events = failover_under_load(service, key, fault=fault, min_replicas=min_replicas)
    history = stays(events)
    assert {stay.who for stay in history} == {"p0", "p1", "p2", "p3"}
    assert check_fencing(history) == []
    assert check_exclusion(history if min_replicas else _by_server(events)) == []
    assert asyncio.run(left_at([service.url], service.servers, key, within=5 * TTL)) == []  # all were killed


def test_two_that_one_server_let_in_are_found(service: SentinelService) -> None:
    """The broken twin of the milder judge: a master that forgets everything lets another one in."""
    with Worker(CONTEND, who="p0", url=service.url, key="twice", ttl=30, step=30) as first:
        first.await_event("inside", within=20)
        ask(service.master.port, "FLUSHALL")
        with Worker(CONTEND, who="p1", url=service.url, key="twice") as second:
            second.await_event("inside", within=20)
    events = [*first.events(), *second.events()]
    assert [violation.rule for violation in check_exclusion(_by_server(events))] == ["exclusion"]
    assert check_fencing(stays(events)) == []


def _by_server(events: list[Event]) -> list[Stay]:
    """Return the stays, each under a key that also names the server that let it in."""
    servers = {event.facts["id"]: event.facts["server"] for event in events if event.what == "inside"}
    return [replace(stay, key=f"{stay.key} at {servers[stay.id]}") for stay in stays(events)]
