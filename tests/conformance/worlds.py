"""The worlds of our own backends. One more backend is one more entry of WORLDS, and one more of EXPECTED."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from aiodlock import LockClient
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.backends.redis.scripts import load
from aiodlock.testing.conformance import Trouble, World
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisCluster, RedisServer
from aiodlock.testing.servers.base import HOST


class ProxyTrouble:
    """The network of one client: a fault proxy of its own in front of each server."""

    def __init__(self, *proxies: FaultProxy) -> None:
        self._proxies = proxies

    def go_down(self) -> None:
        for proxy in self._proxies:
            proxy.refuse()
            proxy.reset()

    def come_back(self) -> None:
        for proxy in self._proxies:
            proxy.heal()

    def drop_request(self, verb: str, times: int = 1) -> None:
        for proxy in self._proxies:
            proxy.drop_request(match=load(verb).sha.encode(), times=times)

    def drop_reply(self, verb: str, times: int = 1) -> None:
        for proxy in self._proxies:
            proxy.drop_reply(match=load(verb).sha.encode(), times=times)


class RedisWorld(World):
    """A real Redis, real time, and a proxy in front of every client of a check that needs faults."""

    ttl = 1.2  # a busy machine stops a process for some tenths of a second

    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self._redis = server
        self._proxies: dict[LockClient, FaultProxy] = {}
        self._stack = ExitStack()

    def connect(self, **settings: Any) -> LockClient:
        port = self._redis.port
        proxy = self._stack.enter_context(FaultProxy(port)) if self.needs == "faults" else None
        client = LockClient(self.backend_at(proxy.port if proxy else port), **settings)
        if proxy:
            self._proxies[client] = proxy
        return client

    def backend_at(self, port: int) -> RedisBackend:
        """Return a backend that reaches the server, or the proxy in front of it, on *port*."""
        return RedisBackend.from_url(f"redis://127.0.0.1:{port}/0")

    def trouble(self, client: LockClient) -> Trouble:
        return ProxyTrouble(self._proxies[client])

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()


class ClusterWorld(World):
    """A real cluster, real time, and a proxy for each of its servers in front of every client that needs faults."""

    ttl = RedisWorld.ttl

    def __init__(self, cluster: RedisCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._proxies: dict[LockClient, dict[int, FaultProxy]] = {}
        self._stack = ExitStack()

    def connect(self, **settings: Any) -> LockClient:
        if self.needs != "faults":
            return LockClient(ClusterBackend.from_url(self._cluster.url), **settings)
        proxies = {node.port: self._stack.enter_context(FaultProxy(node.port)) for node in self._cluster.nodes}
        seeds = [Address(host=HOST, port=proxy.port) for proxy in proxies.values()]
        client = LockClient(ClusterBackend(seeds, remap=lambda spot: (HOST, proxies[spot[1]].port)), **settings)
        self._proxies[client] = proxies
        return client

    def trouble(self, client: LockClient) -> Trouble:
        return ProxyTrouble(*self._proxies[client].values())

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()
