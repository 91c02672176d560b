"""The benchmark of orders: both sides get round, and every order lands."""

from __future__ import annotations

import pytest

from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer, require
from benchmarks.orders import rounds


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_few_orders_come_through() -> None:
    """The floor is not held against so few; that each became a row is checked on the way."""
    for kind in (KafkaServer, MariaDBServer, RedisServer):
        require(kind)
    ratio, lag = await rounds(1, 200)
    assert ratio.value is not None
    assert ratio.value > 0
    assert lag.value is not None
    assert lag.value >= 0
