"""A single Kafka broker. Its jars are fetched once, by Maven, into a cache folder."""

from aiodlock.testing.servers.kafka.server import KafkaServer

__all__ = ["KafkaServer"]
