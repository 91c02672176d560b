"""Topics are made explicitly: a broker that makes them by itself gives them one partition, or none at all."""

from __future__ import annotations

import asyncio
from typing import Any, Unpack

from aiodlock.errors import BackendError, BackendUnavailableError, MissingDependencyError
from aiodlock.inventory.orders.access import Access

try:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaError
except ImportError as error:
    raise MissingDependencyError("Kafka", extra="kafka") from error

__all__ = ["make_topics"]

_EXISTS = 36
_NO_REPLICAS = 38  # also where there are too few brokers for good
_PAUSE = 0.2


async def make_topics(
    bootstrap: str,
    *names: str,
    partitions: int = 4,
    replicas: int = 1,
    patience: float = 10.0,
    **access: Unpack[Access],
) -> None:
    """Make topics; one that is there stays as it is. A broker that starts is waited for, *patience* seconds at most.

    *access*: TLS and SASL for the broker.

    Cancellation: some of them may be made; ask again.
    """
    wanted = [NewTopic(name, num_partitions=partitions, replication_factor=replicas) for name in names]
    reply = await _made(bootstrap, wanted, patience, access)
    for name, code, message in reply.topic_errors:  # they are answered, not raised
        if code not in (0, _EXISTS):
            raise BackendError(f"topic {name!r} cannot be made: {message or code}")


async def _made(bootstrap: str, wanted: list[NewTopic], patience: float, access: Access) -> Any:
    last: Exception | None = None
    try:
        async with asyncio.timeout(patience):
            while True:
                try:
                    return await _make(bootstrap, wanted, access)
                except (KafkaError, OSError, BackendUnavailableError) as error:
                    last = error
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise BackendUnavailableError(
            f"kafka://{bootstrap}: no topics made within {patience:g}s, {last!r}: check the broker"
        ) from last


async def _make(bootstrap: str, wanted: list[NewTopic], access: Access) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **access)
    try:
        await admin.start()
        if not (await admin.describe_cluster())["brokers"]:  # the driver would stumble over its own None
            raise BackendUnavailableError("it listens, but no broker is ready")
        reply = await admin.create_topics(wanted)
        if any(code == _NO_REPLICAS and "fenced" in (message or "") for _, code, message in reply.topic_errors):
            raise BackendUnavailableError("the brokers are there, but not let in again yet")
        return reply
    finally:
        await admin.close()
