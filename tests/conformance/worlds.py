"""The worlds of our own backends. One more backend is one more entry of WORLDS, and one more of EXPECTED."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from aiodlock import LockClient
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.scripts import load
from aiodlock.backends.zookeeper import ZooKeeperBackend
from aiodlock.testing.conformance import Trouble, World
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer, ZooKeeperServer


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
        url = f"redis://127.0.0.1:{proxy.port if proxy else port}/0"
        client = LockClient(RedisBackend.from_url(url), **settings)
        if proxy:
            self._proxies[client] = proxy
        return client

    def trouble(self, client: LockClient) -> Trouble:
        return ProxyTrouble(self._proxies[client])

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()


class ZooKeeperTrouble:
    """The network of one client: a proxy of its own before each server."""

    # What a verb asks of the server: to create (in one step with something else as well), to delete, to set.
    OPCODES = {"join": {14, 15}, "leave": {2}, "latch": {5}}

    def __init__(self, proxies: Sequence[FaultProxy]) -> None:
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
            proxy.drop_request(match=self._is(verb), times=times)

    def drop_reply(self, verb: str, times: int = 1) -> None:
        for proxy in self._proxies:
            proxy.drop_reply(match=self._is(verb), times=times)

    def _is(self, verb: str) -> Callable[[bytes], bool]:
        return lambda chunk: not self.OPCODES[verb].isdisjoint(_opcodes(chunk))


def _opcodes(chunk: bytes) -> Iterator[int]:
    at = 0
    while at + 12 <= len(chunk):
        size, _, opcode = struct.unpack_from("!iii", chunk, at)
        yield opcode
        at += 4 + size


class ZooKeeperWorld(World):
    """A real ZooKeeper of one node or three, real time, and proxies where a check needs faults.

    A lease is the session. Where clients die it is as short as a lease of the suite; elsewhere it is longer than all of
    them, and each is kept by its client.
    """

    def __init__(self, nodes: Sequence[ZooKeeperServer]) -> None:
        super().__init__()
        self._nodes = nodes
        self._proxies: dict[LockClient, list[FaultProxy]] = {}
        self._stack = ExitStack()

    @property
    def ttl(self) -> float:  # type: ignore[override]
        return 2.0 if self.needs == "faults" else 1.2

    def connect(self, **settings: Any) -> LockClient:
        faulty = self.needs == "faults"
        proxies = [self._stack.enter_context(FaultProxy(node.port)) for node in self._nodes if faulty]
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in proxies or self._nodes)
        backend = ZooKeeperBackend.from_url(f"zk://{hosts}/aiodlock", session=self.ttl if faulty else 40.0, tick=0.2)
        client = LockClient(backend, **settings)
        self._proxies[client] = proxies
        return client

    def trouble(self, client: LockClient) -> Trouble:
        return ZooKeeperTrouble(self._proxies[client])

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()
