"""The benchmark of stock: every way gets round, sells exactly what there is, and its ratios are told."""

from __future__ import annotations

from aiodlock.testing.servers import RedisServer, require
from benchmarks.stock import RATIOS, Crowd, rounds


async def test_a_small_crowd_is_served_by_every_way() -> None:
    """Floors are not held against so small a crowd; the sums are."""
    require(RedisServer)
    checks = await rounds(1, Crowd(stock=100, buyers=200, at_once=20, seconds=2.0))
    assert len(checks) == len(RATIOS) + 2
    assert all(check.value > 0 for check in checks[: len(RATIOS)])
    assert [check.value for check in checks[len(RATIOS) :]] == [0, 0]
