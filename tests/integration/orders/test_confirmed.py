"""With `min_replicas` a relay publishes only what replicas have: what a failover may lose never becomes a row."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import pytest

import aiodlock
from aiodlock.inventory.orders import OutboxRelay, Publisher
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisReplica, RedisServer, require
from tests.integration.orders.conftest import until

pytestmark = pytest.mark.timeout(120)  # servers that are silent for a while, on a busy machine


class Noted(Publisher):
    """Publishes nowhere, and notes what."""

    orders: ClassVar[list[str]] = []

    async def publish(self, topic: str, messages: Sequence[tuple[bytes, bytes]]) -> None:
        self.orders.extend(key.decode() for key, _ in messages)


@pytest.mark.parametrize(("replicas", "is_caught"), [(1, False), (0, True)])
async def test_what_no_replica_has_is_not_published(
    replicas: int, is_caught: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shop that asks for no replica sells while the copying is cut; a relay that asks for none is caught."""
    require(RedisServer)
    monkeypatch.setattr(Noted, "orders", [])
    monkeypatch.setattr("aiodlock.inventory.orders.relay.Publisher", Noted)
    with RedisServer() as master, FaultProxy(master.port) as copying, RedisReplica(of=copying.port):
        async with (
            aiodlock.connect(master.url) as hasty,
            aiodlock.connect(master.url, min_replicas=replicas, patience=1.5) as locks,
        ):
            shop, stock = (one.stock("sku", outbox=True, patience=8.0) for one in (hasty, locks))
            await shop.load(5)
            await shop.take(buyer="ann", order="o-1")
            async with OutboxRelay(stock, "nowhere", topic="orders") as relay:

                async def has_published() -> bool:
                    return bool(Noted.orders)

                async def has_looked() -> bool:
                    return relay.failures > 0 or "o-2" in Noted.orders

                await until(has_published)
                await asyncio.to_thread(copying.half_open)
                await shop.take(buyer="bob", order="o-2")
                await until(has_looked)
                assert ("o-2" in Noted.orders) is is_caught
