"""Real servers for tests: each in a fresh directory on a free loopback port; crashed, paused, restarted, ended by pid.

::

    with RedisServer(durable=True) as server:
        client = connect(server.url)
        with server.paused(): ...
        server.crash()
        server.start()          # same port, same data directory

Calls block until what they say is true; in a test on a loop that must go on meanwhile, use ``asyncio.to_thread``.
"""

from aiodlock.testing.servers.base import MissingServerError, Server, ServerFailedError, free_ports
from aiodlock.testing.servers.cluster import ClusterNode, RedisCluster
from aiodlock.testing.servers.independent import IndependentMasters
from aiodlock.testing.servers.redis import RedisServer
from aiodlock.testing.servers.require import require

__all__ = [
    "ClusterNode",
    "IndependentMasters",
    "MissingServerError",
    "RedisCluster",
    "RedisServer",
    "Server",
    "ServerFailedError",
    "free_ports",
    "require",
]
