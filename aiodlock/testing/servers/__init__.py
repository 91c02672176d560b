"""Real servers for tests: each in a fresh directory on a free loopback port; crashed, paused, restarted, ended by pid.

::

    with RedisServer(durable=True) as server:
        client = connect(server.url)
        with server.paused(): ...
        server.crash()
        server.start()          # same port, same data directory

Calls block until what they say is true; in a test on a loop that must go on meanwhile, use ``asyncio.to_thread``.
"""

from aiodlock.testing.servers.base import MissingServerError, Server, ServerFailedError
from aiodlock.testing.servers.cluster import ClusterNode, RedisCluster
from aiodlock.testing.servers.independent import IndependentMasters
from aiodlock.testing.servers.kafka import KafkaServer
from aiodlock.testing.servers.mariadb import MariaDBServer
from aiodlock.testing.servers.ports import free_ports
from aiodlock.testing.servers.redis import RedisServer
from aiodlock.testing.servers.replica import RedisReplica
from aiodlock.testing.servers.require import require
from aiodlock.testing.servers.sentinel import RedisSentinel, SentinelService
from aiodlock.testing.servers.tls import TlsRedisServer
from aiodlock.testing.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

__all__ = [
    "ClusterNode",
    "IndependentMasters",
    "KafkaServer",
    "MariaDBServer",
    "MissingServerError",
    "RedisCluster",
    "RedisReplica",
    "RedisSentinel",
    "RedisServer",
    "SentinelService",
    "Server",
    "ServerFailedError",
    "TlsRedisServer",
    "ZooKeeperEnsemble",
    "ZooKeeperServer",
    "free_ports",
    "require",
]
