"""The benchmark of stock: every way gets round, sells exactly what there is, and its ratios are told."""

from __future__ import annotations

import pytest

from aiodlock.testing.servers import require
from benchmarks.stock import SERVERS, Crowd, rounds


@pytest.mark.parametrize("on", SERVERS)
async def test_a_small_crowd_is_served_by_every_way(on: str) -> None:
    """Floors are not held against so small a crowd; the sums are."""
    server, _, ratios = SERVERS[on]
    require(server)
    checks = await rounds(1, Crowd(stock=100, buyers=200, at_once=20, seconds=2.0), on=on)
    assert len(checks) == len(ratios) + 2
    assert all(check.value > 0 for check in checks[: len(ratios)])
    assert [check.value for check in checks[len(ratios) :]] == [0, 0]
