"""Topics are made where there is a broker, and otherwise it is told in time."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.errors import BackendError, BackendUnavailableError
from aiodlock.inventory.orders import make_topics
from aiodlock.testing.servers import KafkaServer
from aiodlock.testing.servers.ports import free_ports

pytestmark = pytest.mark.timeout(120)  # servers that are silent for a while, on a busy machine


async def test_a_broker_that_comes_back_is_waited_for(kafka: KafkaServer) -> None:
    kafka.pause()
    making = asyncio.create_task(make_topics(kafka.bootstrap, "waited-for", patience=60.0))
    try:
        await asyncio.sleep(3.5)  # it is taken for dead after three seconds, and has to be let in again
    finally:
        kafka.resume()
    await making
    await make_topics(kafka.bootstrap, "waited-for")  # it is there


async def test_no_broker_is_told_in_time() -> None:
    (port,) = free_ports(1)
    with pytest.raises(BackendUnavailableError, match=f"kafka://127.0.0.1:{port}: no topics made within 0.5s"):
        await make_topics(f"127.0.0.1:{port}", "nowhere", patience=0.5)


async def test_a_topic_that_cannot_be_made_is_named(kafka: KafkaServer) -> None:
    with pytest.raises(BackendError, match="topic 'too-many' cannot be made"):
        await make_topics(kafka.bootstrap, "too-many", replicas=9)
