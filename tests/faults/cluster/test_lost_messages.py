"""In a cluster a reply or a request is lost at every k-th command, calls are lost and doubled: all is made good."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

import aiodlock
from aiodlock.testing.proxy import FaultProxy, Rule
from aiodlock.testing.servers import RedisCluster
from tests.faults.cluster.servers import proxied
from tests.faults.leftovers import left_at
from tests.faults.meeting import meet
from tests.faults.redis.calls import repeated
from tests.faults.twins import TWINS
from tests.faults.visits import KINDS
from tests.fuzz.twins import broken
from tests.integration.redis.scripts import load_scripts

TTL = 30.0  # far longer than a run, so that no orphan ends by itself
VISITS = 12  # of each task: a process has more than one turn then

LOSSES: dict[str, Callable[[FaultProxy, int], Rule]] = {
    "every k-th reply": lambda proxy, k: proxy.drop_reply(match=b"EVALSHA", every=k),
    "every k-th request": lambda proxy, k: proxy.drop_request(match=b"EVALSHA", every=k),
}

_keys = map("lost-{}".format, itertools.count())


async def play(
    cluster: RedisCluster,
    kind: str,
    harm: Callable[[Sequence[FaultProxy]], Sequence[Rule]],
    *,
    ttl: float,
    visits: int,
    within: float,
) -> int:
    """Let a client behind proxies contend with one that has no trouble; return how often something was lost.

    Fail if anything is wrong.
    """
    key = next(_keys)
    with proxied(cluster) as (client, proxies):
        rules = harm(proxies)
        async with client as far, aiodlock.connect(cluster.url, name="near") as near:
            async with near.lock(key):
                pass  # it has connected to the server of this key, and is there before the other one
            await meet(far, near, kind, key, ttl=ttl, visits=visits, within=within, proxies=proxies)
    assert await left_at([cluster.url], cluster.nodes, key) == []
    return sum(rule.done for rule in rules)


async def for_every_k(cluster: RedisCluster, kind: str, loss: str, *, within: float = 10.0) -> int:
    """Play for each k, until one is larger than the run is long; return that."""
    how = {"ttl": TTL, "visits": VISITS, "within": within}
    for master in cluster.masters():
        load_scripts(master)
    for k in itertools.count(2):
        if not await play(cluster, kind, lambda proxies, k=k: [LOSSES[loss](one, k) for one in proxies], **how):
            return k
    raise AssertionError("never ends")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_is_lost_is_made_good(cluster: RedisCluster, kind: str, loss: str) -> None:
    """Everybody enters as often as he wants to, nobody beside a holder, and nothing is left."""
    assert await for_every_k(cluster, kind, loss) > 4


@pytest.mark.parametrize(
    ("loss", "twin"),
    [("every k-th reply", "another_id_each_time"), ("every k-th request", "leaves_once")],
)
async def test_losses_show_who_does_not_repeat_as_he_should(cluster: RedisCluster, loss: str, twin: str) -> None:
    """The broken twins: each leaves a ticket, which stands in everybody's way or is found at the end."""
    with broken(TWINS[twin]), pytest.raises((AssertionError, TimeoutError)):
        await for_every_k(cluster, "lock", loss, within=3.0)


async def play_with_calls(cluster: RedisCluster, times: int, *, within: float) -> None:
    """Contend while each call arrives so many times."""

    def repeat(proxies: Sequence[FaultProxy]) -> list[Rule]:
        for proxy in proxies:
            proxy.edit_replies(repeated(times))
        return []

    await play(cluster, "lock", repeat, ttl=1.2, visits=4, within=within)


@pytest.mark.parametrize("times", [0, 2])
async def test_calls_that_are_all_lost_or_all_doubled(cluster: RedisCluster, times: int) -> None:
    """Sharded ones; lost they cost time, doubled nothing."""
    await play_with_calls(cluster, times, within=20.0)


async def test_lost_calls_show_who_never_looks(cluster: RedisCluster) -> None:
    """The broken twin waits for a call that does not come."""
    with broken(TWINS["never_looks"]), pytest.raises(TimeoutError):
        await play_with_calls(cluster, 0, within=2.0)


async def test_doubled_calls_show_who_believes_each_of_them(cluster: RedisCluster) -> None:
    """The broken twin hands its place to two."""
    with broken(TWINS["every_call_counts"]), pytest.raises(AssertionError, match="exclusion"):
        await play_with_calls(cluster, 2, within=20.0)
