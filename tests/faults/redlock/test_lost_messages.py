"""Replies and requests are lost at every k-th command, at a few servers or at all: what is lost is made good."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from aiodlock import LockClient
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.redlock import RedlockBackend
from aiodlock.testing.proxy import FaultProxy, Rule
from aiodlock.testing.servers import IndependentMasters
from aiodlock.testing.servers.ports import HOST
from tests.faults.leftovers import left_at
from tests.faults.meeting import meet
from tests.faults.twins import TWINS
from tests.fuzz.twins import broken
from tests.integration.redis.scripts import load_scripts

TTL = 30.0  # far longer than a run, so that no orphan ends by itself
VISITS = 4  # of each task
LONGEST = 12  # the last k: a run in which tries fail has no length of its own

# At how many of the five servers, and from which k on somebody gets on: where more of all messages is lost, no try is
# whole.
WHERE = {1: 2, 2: 2, 5: 5}

LOSSES: dict[str, Callable[[FaultProxy, int], Rule]] = {
    "every k-th reply": lambda proxy, k: proxy.drop_reply(match=b"EVALSHA", every=k),
    "every k-th request": lambda proxy, k: proxy.drop_request(match=b"EVALSHA", every=k),
}

_keys = map("lost-{}".format, itertools.count())


@pytest.fixture
def proxies(masters: IndependentMasters) -> Iterator[list[FaultProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy(node.port)) for node in masters.nodes]


def client_at(ports: list[int], name: str) -> LockClient:
    return LockClient(RedlockBackend([Address(host=HOST, port=port) for port in ports]), name=name)


async def for_every_k(
    masters: IndependentMasters, proxies: list[FaultProxy], kind: str, loss: str, *, servers: int, within: float = 30.0
) -> None:
    """Let a client behind the proxies contend with one that has no trouble, for each k; fail if anything is wrong."""
    for node in masters.nodes:
        load_scripts(node, "epoch", "bell")
    for k in range(WHERE[servers], LONGEST + 1):
        key = next(_keys)
        async with (
            client_at([proxy.port for proxy in proxies], "far") as far,
            client_at([node.port for node in masters.nodes], "near") as near,
        ):
            rules = [LOSSES[loss](proxy, k) for proxy in proxies[:servers]]
            await meet(far, near, kind, key, ttl=TTL, visits=VISITS, within=within, proxies=proxies)
        assert await left_at([node.url for node in masters.nodes], masters.nodes, key) == []
        assert all(rule.done for rule in rules)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("servers", WHERE)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["lock", "rwlock"])
async def test_whatever_is_lost_is_made_good(
    masters: IndependentMasters, proxies: list[FaultProxy], kind: str, loss: str, servers: int
) -> None:
    """Everybody enters as often as he wants to, nobody beside a holder, and nothing is left at any server."""
    await for_every_k(masters, proxies, kind, loss, servers=servers)


async def test_lost_requests_show_who_does_not_leave_again(
    masters: IndependentMasters, proxies: list[FaultProxy]
) -> None:
    """The broken twin: what a server did not hear of a leave, it keeps."""
    with broken(TWINS["owes_nothing"]), pytest.raises((AssertionError, TimeoutError)):
        await for_every_k(masters, proxies, "lock", "every k-th request", servers=2, within=3.0)
