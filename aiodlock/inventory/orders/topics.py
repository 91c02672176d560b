"""Topics are made explicitly: a broker that makes them by itself gives them one partition, or none at all."""

from __future__ import annotations

from aiodlock.errors import BackendError, BackendUnavailableError, MissingDependencyError

try:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
except ImportError as error:
    raise MissingDependencyError("Kafka", extra="kafka") from error

__all__ = ["make_topics"]

_EXISTS = 36


async def make_topics(bootstrap: str, *names: str, partitions: int = 4, replicas: int = 1) -> None:
    """Make topics; one that is there stays as it is.

    Cancellation: some of them may be made; ask again.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        if not (await admin.describe_cluster())["brokers"]:  # aiokafka would fail on its own None
            raise BackendUnavailableError(f"{bootstrap} has no broker yet: ask again when it has started")
        wanted = [NewTopic(name, num_partitions=partitions, replication_factor=replicas) for name in names]
        reply = await admin.create_topics(wanted)
    finally:
        await admin.close()
    for name, code, message in reply.topic_errors:  # they are answered, not raised
        if code not in (0, _EXISTS):
            raise BackendError(f"topic {name!r} cannot be made: {message or code}")
