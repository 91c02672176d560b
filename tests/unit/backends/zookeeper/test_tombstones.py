"""Who is gone is remembered for its time, and no longer."""

from __future__ import annotations

from aiodlock._core.line import GoneWhy, TicketId
from aiodlock.backends.zookeeper.tombstones import Tombstones


def test_each_is_remembered_for_its_time() -> None:
    stones, one, two = Tombstones(), TicketId("1"), TicketId("2")
    stones.set(one, GoneWhy.BURIED, now=0.0, life=10.0)
    stones.set(two, GoneWhy.EXPIRED, now=1.0, life=2.0)
    assert (stones.why(one, now=9.0), stones.why(two, now=2.0)) == (GoneWhy.BURIED, GoneWhy.EXPIRED)
    assert (stones.why(one, now=10.0), stones.why(two, now=3.0)) == (None, None)


def test_one_that_is_set_again_is_remembered_for_longer() -> None:
    stones, one = Tombstones(), TicketId("1")
    stones.set(one, GoneWhy.BURIED, now=0.0, life=10.0)
    stones.set(one, GoneWhy.BURIED, now=5.0, life=10.0)
    stones.set(TicketId("2"), GoneWhy.BURIED, now=12.0, life=1.0)
    assert stones.why(one, now=14.0) is GoneWhy.BURIED


def test_a_long_one_keeps_no_other() -> None:
    """However many come after it."""
    stones = Tombstones()
    stones.set(TicketId("long"), GoneWhy.BURIED, now=0.0, life=1e6)
    for number in range(1_000):
        stones.set(TicketId(f"{number}"), GoneWhy.EXPIRED, now=float(number), life=60.0)
    assert len(stones) <= 62
    assert stones.why(TicketId("long"), now=1_000.0) is GoneWhy.BURIED
