"""The worlds of our own backends. One more backend is one more entry of WORLDS, and one more of EXPECTED."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from aiodlock import LockClient
from aiodlock.backends.base import Backend
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.backends.redis.redlock import RedlockBackend
from aiodlock.backends.redis.scripts import load
from aiodlock.testing.conformance import Trouble, World
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer
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


class _ManyServersWorld(World):
    """Several real servers, real time, and a proxy for each of them in front of every client that needs faults."""

    ttl = RedisWorld.ttl

    def __init__(self, nodes: Sequence[RedisServer]) -> None:
        super().__init__()
        self._nodes = nodes
        self._proxies: dict[LockClient, list[FaultProxy]] = {}
        self._stack = ExitStack()

    def connect(self, **settings: Any) -> LockClient:
        if self.needs != "faults":
            return LockClient(self.backend_at({node.port: node.port for node in self._nodes}), **settings)
        proxies = [self._stack.enter_context(FaultProxy(node.port)) for node in self._nodes]
        client = LockClient(self.backend_at({proxy.target: proxy.port for proxy in proxies}), **settings)
        self._proxies[client] = proxies
        return client

    def backend_at(self, ports: dict[int, int]) -> Backend:
        """Return a backend that reaches each server by the port given for its own."""
        raise NotImplementedError

    def trouble(self, client: LockClient) -> Trouble:
        return ProxyTrouble(*self._proxies[client])

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()


class ClusterWorld(_ManyServersWorld):
    """A cluster."""

    def backend_at(self, ports: dict[int, int]) -> Backend:
        seeds = [Address(host=HOST, port=port) for port in ports.values()]
        return ClusterBackend(seeds, remap=lambda spot: (HOST, ports[spot[1]]))


class RedlockWorld(_ManyServersWorld):
    """Independent masters. They do not show who waits: nobody stands in line there."""

    async def _are_waiting(self, count: int) -> bool:
        backends = [client.backend for client in self._clients]
        stands = [stand for one in backends if isinstance(one, RedlockBackend) for stand in one._stands.values()]
        return sum(stand.tries > 0 and not stand.epoch and not stand.is_over for stand in stands) == count

    def backend_at(self, ports: dict[int, int]) -> Backend:
        return RedlockBackend([Address(host=HOST, port=port) for port in ports.values()])
