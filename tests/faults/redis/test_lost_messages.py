"""A request or a reply is lost at every k-th command, for every k until k exceeds the run."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from aiodlock import LockClient
from aiodlock.errors import AcquireTimeoutError, BackendUnavailableError
from aiodlock.testing.history import Violation, check_conservation
from aiodlock.testing.processes import WorkerFailedError
from aiodlock.testing.proxy import FaultProxy, Rule
from aiodlock.testing.servers import RedisServer
from tests.faults.crew import Crew, judge
from tests.faults.meeting import meet
from tests.faults.redis.admin import ask, left_on
from tests.faults.redis.clients import through, two_clients
from tests.faults.twins import TWINS
from tests.faults.visits import KINDS, kept_by
from tests.fuzz.twins import broken
from tests.integration.redis.scripts import load_scripts

TTL = 30.0  # far longer than a run, so that no orphan ends by itself
VISITS = 12  # of each task: more than fit into two of the longest batches
LONGEST = 10  # the last k, where the run has no end of its own

# What is lost: some message once, also of the handshake or a script that is loaded; or every k-th verb again and again.
# There is no "every k-th" of all messages: between two of them nobody would get further than being connected.
ONCE: dict[str, Callable[[FaultProxy, int], Rule]] = {
    "the k-th reply": lambda proxy, k: proxy.drop_reply(every=k, times=1),
    "the k-th request": lambda proxy, k: proxy.drop_request(every=k, times=1),
}
OFTEN: dict[str, Callable[[FaultProxy, int], Rule]] = {
    "every k-th reply": lambda proxy, k: proxy.drop_reply(match=b"EVALSHA", every=k),
    "every k-th request": lambda proxy, k: proxy.drop_request(match=b"EVALSHA", every=k),
}
LOSSES = ONCE | OFTEN

_keys = (f"lost-{number}" for number in itertools.count())


async def play(server: RedisServer, proxy: FaultProxy, kind: str, lose: Callable[[], Rule], *, within: float) -> Rule:
    """Contend while something is lost; fail if anything is wrong then."""
    key = next(_keys)
    async with two_clients(server, proxy) as clients:
        rule = lose()
        await meet(*clients, kind, key, ttl=TTL, visits=VISITS, within=within, proxies=[proxy])
    assert await left_on(server, key) == []
    return rule


async def for_every_k(server: RedisServer, proxy: FaultProxy, kind: str, loss: str, *, within: float = 10.0) -> int:
    """Play for each k, until one is larger than the run is long; return that."""
    for k in itertools.count(1 if loss in ONCE else 2):
        ask(server, "SCRIPT", "FLUSH")
        if loss in OFTEN:
            load_scripts(server)
        if not (await play(server, proxy, kind, lambda k=k: LOSSES[loss](proxy, k), within=within)).done:
            return k
    raise AssertionError("never ends")


def cells(losses: Iterable[str]) -> Iterator[Any]:
    """Each kind with each loss; a lock's lost replies at once, the others in the long tier."""
    for kind, loss in itertools.product(KINDS, losses):
        is_short = kind == "lock" and loss == "every k-th reply"
        yield pytest.param(kind, loss, marks=() if is_short else pytest.mark.long)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "loss"), list(cells(LOSSES)))
async def test_whatever_is_lost_is_made_good(server: RedisServer, proxy: FaultProxy, kind: str, loss: str) -> None:
    """Everybody enters as often as he wants to, nobody beside a holder, and nothing is left."""
    assert await for_every_k(server, proxy, kind, loss) > 4


@pytest.mark.parametrize(
    ("loss", "twin"),
    [("every k-th reply", "another_id_each_time"), ("every k-th request", "leaves_once")],
)
async def test_losses_show_who_does_not_repeat_as_he_should(
    server: RedisServer, proxy: FaultProxy, loss: str, twin: str
) -> None:
    """The broken twins: each leaves a ticket, which stands in everybody's way or is found at the end."""
    with broken(TWINS[twin]), pytest.raises((AssertionError, TimeoutError)):
        await for_every_k(server, proxy, "lock", loss, within=1.5)


async def fall_mute(server: RedisServer, proxy: FaultProxy) -> None:
    """Ask for a lock while every reply is lost, by the wait and by the ttl; then look whether it is free."""
    async with two_clients(server, proxy) as (far, near):
        proxy.drop_reply(match=b"EVALSHA")
        with pytest.raises(AcquireTimeoutError):
            await far.lock("mute", ttl=TTL).acquire(0.2)
        with pytest.raises(BackendUnavailableError):
            await far.lock("mute", ttl=0.5).acquire()
        proxy.heal()
        assert await kept_by(far) == []
        async with near.lock("mute", ttl=TTL, wait=0):
            pass


async def test_a_server_whose_every_reply_is_lost_is_told_in_time(server: RedisServer, proxy: FaultProxy) -> None:
    """By the wait, else within the ttl; what was done there meanwhile is undone."""
    load_scripts(server)
    await fall_mute(server, proxy)
    assert await left_on(server, "mute") == []


async def test_lost_replies_show_who_asks_as_somebody_else(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin: what it got under its former ids stands in everybody's way."""
    load_scripts(server)
    with broken(TWINS["another_id_each_time"]), pytest.raises((AssertionError, AcquireTimeoutError)):
        await fall_mute(server, proxy)


def crew_for_every_k(server: RedisServer, proxy: FaultProxy, kind: str, loss: str, *, twin: str = "") -> list[str]:
    """Have processes contend, two of them behind the proxy, and lose every k-th, for each k; return what is wrong."""
    load_scripts(server)
    starves = 3.0 if twin else 30.0
    with Crew("contend", [through(proxy)] * 2 + [server.url], kind=kind, tasks=2, ttl=TTL, twin=twin) as crew:
        for k in range(2, LONGEST + 1):
            rule = OFTEN[loss](proxy, k)
            while not rule.done:  # they go on until they are told to stop, so the k-th comes
                crew.await_more(1, within=starves)
            crew.await_more(2, within=starves)
            proxy.heal()
        wrong = judge(crew.finish(), kind=kind)
    return [*wrong, *asyncio.run(left_on(server, crew.key))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "loss"), list(cells(OFTEN)))
def test_whatever_processes_lose_is_made_good(server: RedisServer, proxy: FaultProxy, kind: str, loss: str) -> None:
    """The same with three processes and their histories."""
    assert crew_for_every_k(server, proxy, kind, loss) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_processes_that_ask_as_somebody_else_are_found(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin."""
    with pytest.raises(WorkerFailedError, match="without event 'inside'"):
        crew_for_every_k(server, proxy, "lock", "every k-th reply", twin="another_id_each_time")


async def count_down_for_every_k(server: RedisServer, proxy: FaultProxy) -> list[Violation]:
    """Count a latch down by two clients while replies of one are lost; return where the books are wrong."""

    async def count_down(locks: LockClient) -> None:
        for number in range(6):
            await locks.latch(key, count=20).count_down()
            accepted.append((f"{locks.name} {number}", 1))

    for k in itertools.count(2):
        key, accepted = next(_keys), list[tuple[str, int]]()
        async with two_clients(server, proxy) as clients:
            rule = proxy.drop_reply(match=b"EVALSHA", every=k)
            await asyncio.gather(*map(count_down, clients))
            proxy.heal()
            left = await clients[1].latch(key, count=20).count()
        if (wrong := check_conservation(20, accepted=accepted, left=[left])) or not rule.done:
            return wrong
    raise AssertionError("never ends")


async def test_a_latch_counts_once_whatever_is_lost(server: RedisServer, proxy: FaultProxy) -> None:
    assert await count_down_for_every_k(server, proxy) == []


async def test_lost_replies_show_who_counts_again(server: RedisServer, proxy: FaultProxy) -> None:
    """The broken twin has another id for the same operation each time it is sent."""
    with broken(TWINS["counts_again"]):
        assert [violation.rule for violation in await count_down_for_every_k(server, proxy)] == ["not conserved"]
