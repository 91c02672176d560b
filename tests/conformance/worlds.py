"""The worlds of our own backends. One more backend is one more entry of WORLDS, and one more of EXPECTED."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from aiodlock import LockClient
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.scripts import load
from aiodlock.testing.conformance import Trouble, World
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer


class ProxyTrouble:
    """The network of one client: a fault proxy of its own."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    def go_down(self) -> None:
        self._proxy.refuse()
        self._proxy.reset()

    def come_back(self) -> None:
        self._proxy.heal()

    def drop_request(self, verb: str, times: int = 1) -> None:
        self._proxy.drop_request(match=load(verb).sha.encode(), times=times)

    def drop_reply(self, verb: str, times: int = 1) -> None:
        self._proxy.drop_reply(match=load(verb).sha.encode(), times=times)


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
