"""The worlds of our own backends. One more backend is one more entry of WORLDS, and one more of EXPECTED."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from aiodlock import LockClient
from aiodlock._core.place import WAITING
from aiodlock.backends.base import Backend
from aiodlock.backends.mysql import LockTable, MySQLBackend
from aiodlock.backends.redis import RedisBackend
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.cluster import ClusterBackend
from aiodlock.backends.redis.redlock import RedlockBackend
from aiodlock.backends.redis.scripts import load
from aiodlock.backends.zookeeper import ZooKeeperBackend
from aiodlock.testing.conformance import Trouble, World
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer, RedisServer, Server, ZooKeeperServer
from aiodlock.testing.servers.ports import HOST

_NAMES = {"change": "weight"}  # of what is lost here: a size is changed by hand, and not repeated


def _sha(verb: str) -> bytes:
    return load(_NAMES.get(verb, verb)).sha.encode()


class ProxyTrouble:
    """The network of one client: a fault proxy of its own in front of each server.

    *sign*: what the request of a verb is known by.
    """

    def __init__(self, *proxies: FaultProxy, sign: Callable[[str], bytes | Callable[[bytes], bool]]) -> None:
        self._proxies = proxies
        self._sign = sign

    def go_down(self) -> None:
        for proxy in self._proxies:
            proxy.refuse()
            proxy.reset()

    def come_back(self) -> None:
        for proxy in self._proxies:
            proxy.heal()

    def drop_request(self, verb: str, times: int = 1) -> None:
        for proxy in self._proxies:
            proxy.drop_request(match=self._sign(verb), times=times)

    def drop_reply(self, verb: str, times: int = 1) -> None:
        for proxy in self._proxies:
            proxy.drop_reply(match=self._sign(verb), times=times)


class ServerWorld(World):
    """A real server, real time, and a proxy in front of every client of a check that needs faults."""

    ttl = 1.2  # a busy machine stops a process for some tenths of a second
    slack = 1.0  # below the 1.7 s after which a client looks that was not called

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._proxies: dict[LockClient, FaultProxy] = {}
        self._stack = ExitStack()

    def backend_at(self, port: int) -> Backend:
        """Return a backend of the server that listens there: itself, or a proxy in front of it."""
        raise NotImplementedError

    def sign(self, verb: str) -> bytes:
        """Return what the request of a verb is known by."""
        raise NotImplementedError

    def connect(self, **settings: Any) -> LockClient:
        port = self._server.port
        proxy = self._stack.enter_context(FaultProxy(port)) if self.needs == "faults" else None
        client = LockClient(self.backend_at(proxy.port if proxy else port), **settings)
        if proxy:
            self._proxies[client] = proxy
        return client

    def trouble(self, client: LockClient) -> Trouble:
        return ProxyTrouble(self._proxies[client], sign=self.sign)

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()


class RedisWorld(ServerWorld):
    """A real Redis."""

    def backend_at(self, port: int) -> Backend:
        return RedisBackend.from_url(f"redis://127.0.0.1:{port}/0")

    def sign(self, verb: str) -> bytes:
        return _sha(verb)


class _ServersWorld(World):
    """Several real servers, real time, and a proxy for each of them in front of every client that needs faults."""

    ttl, slack = RedisWorld.ttl, RedisWorld.slack

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
        return ProxyTrouble(*self._proxies[client], sign=_sha)

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()


class ClusterWorld(_ServersWorld):
    """A cluster."""

    def backend_at(self, ports: dict[int, int]) -> Backend:
        seeds = [Address(host=HOST, port=port) for port in ports.values()]
        return ClusterBackend(seeds, remap=lambda spot: (HOST, ports[spot[1]]))


class RedlockWorld(_ServersWorld):
    """Independent masters. They do not show who waits: nobody stands in line there."""

    def backend_at(self, ports: dict[int, int]) -> Backend:
        return RedlockBackend([Address(host=HOST, port=port) for port in ports.values()])

    async def _are_waiting(self, count: int) -> bool:
        backends = [client.backend for client in self._clients]
        stands = [stand for one in backends if isinstance(one, RedlockBackend) for stand in one._stands.values()]
        return sum(stand.tries > 0 and not stand.epoch and not stand.is_over for stand in stands) == count


class MySQLWorld(ServerWorld):
    """A real MariaDB, whose clients are called, or with *pushes* false look."""

    slack = 2.0  # on a busy machine

    def __init__(self, server: Server, *, pushes: bool = True) -> None:
        super().__init__(server)
        self._pushes = pushes

    def backend_at(self, port: int) -> Backend:
        url = f"mysql://root@127.0.0.1:{port}/{MariaDBServer.database}"
        return MySQLBackend.from_url(url, pushes=self._pushes)

    def sign(self, verb: str) -> bytes:
        of_stock = "stock_" if verb in {"confirm", "put_back", "restock", "take"} else ""
        return f"CALL aiodlock_{of_stock}{_NAMES.get(verb, verb)}(".encode()


class LockTableWorld(ServerWorld):
    """The classic table in a real MariaDB. It does not show who waits: nobody stands in line there."""

    slack = 2.0

    def backend_at(self, port: int) -> Backend:
        return LockTable.from_url(f"mysql://root@127.0.0.1:{port}/{MariaDBServer.database}", table="conforming_locks")

    def sign(self, verb: str) -> bytes:
        return {"join": b"INSERT IGNORE", "leave": b" = FALSE WHERE"}[verb]

    async def _are_waiting(self, count: int) -> bool:
        engines = [client._engine for client in self._clients]
        places = [place for engine in engines if engine for place in engine.places.values()]
        return sum(place.answered and place.state is WAITING for place in places) == count


# What a verb asks of ZooKeeper: to create (in one step with something else as well), to delete, to set.
_OPCODES = {"join": {14, 15}, "leave": {2}, "change": {14}, "latch": {5}}


def asks_for(verb: str) -> Callable[[bytes], bool]:
    return lambda chunk: not _OPCODES[verb].isdisjoint(opcodes(chunk))


def opcodes(chunk: bytes) -> Iterator[int]:
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

    slack = ServerWorld.slack

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
        return ProxyTrouble(*self._proxies[client], sign=asks_for)

    async def aclose(self) -> None:
        await super().aclose()
        self._stack.close()
