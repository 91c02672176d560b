"""A world: one server, its clients in the parts of several processes, and time.

A check sees nothing else, so that the same code runs where time is virtual and where it is real.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from aiodlock._core.line import WAITING_LIFE, Call, Row
from aiodlock.backends.base import Backend, Capabilities
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.client import LockClient
from aiodlock.testing.clock import LoopClock, VirtualTimeLoop
from aiodlock.testing.faults import Faults, Verb

__all__ = ["MemoryWorld", "Trouble", "World"]

_T = TypeVar("_T")


class Trouble(Protocol):
    """The network of one client, under the control of a check."""

    def go_down(self) -> None:
        """Refuse every request until `come_back`."""

    def come_back(self) -> None:
        """Be well again, on a new connection."""

    def drop_request(self, verb: Verb, times: int = 1) -> None:
        """Lose the next *times* of *verb* with the connection before they arrive."""

    def drop_reply(self, verb: Verb, times: int = 1) -> None:
        """Do the next *times* of *verb*, and lose the answer with the connection."""


class World:
    """What a backend gives to the checks: override `connect`, and what else its server needs.

    A world is used for one check. Its keys begin with a prefix of their own, so that worlds may share a server.
    """

    ttl: float = 1.0  # a lease as short as this server can keep safely on a busy machine
    slack: float = 0.5  # how late something may be noticed beyond what is promised
    patience: float = 60.0  # how long a check may take
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None

    def __init__(self) -> None:
        self.needs = ""  # what the check needs beyond clients
        self.left: list[Row] = []  # what was on the server when all clients were closed
        self._prefix = secrets.token_hex(4)
        self._clients: list[LockClient] = []
        self._dead: list[LockClient] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._backends: list[Backend] = []
        self._numbers = itertools.count(1)
        self._observer: LockClient | None = None

    def connect(self, **settings: Any) -> LockClient:
        """Return an unopened client of this world's server; *settings* are those of `LockClient`."""
        raise NotImplementedError

    def trouble(self, client: LockClient) -> Trouble:
        """Return the network of *client*, for checks that need faults."""
        raise NotImplementedError

    async def crash(self, client: LockClient) -> None:
        """Let the process of *client* die: nothing more of it reaches the server."""
        self.trouble(client).go_down()
        self._dead.append(client)

    @property
    def capabilities(self) -> Capabilities:
        """What the backend says that it can do."""
        return self.connect().backend.capabilities

    def soon(self, ttl: float = 30.0) -> float:
        """Return how long a client with that ttl may take to notice its turn: told by a push, or by looking."""
        return self.slack if self.capabilities.pushes else min(ttl, WAITING_LIFE) / 3 + self.slack

    async def client(self, name: str = "", **settings: Any) -> LockClient:
        """Return an open client, as if it were another process; it is closed at the end."""
        client = self.connect(name=name or f"client-{len(self._clients)}", **settings)
        self._clients.append(client)
        return await client.start()

    async def clients(self, count: int) -> list[LockClient]:
        return [await self.client() for _ in range(count)]

    async def backend(self) -> tuple[Backend, list[Call]]:
        """Return an open backend without an engine, and the list of calls that it gets."""
        backend, calls = self.connect().backend, list[Call]()
        self._backends.append(backend)
        await backend.open(calls.append)
        return backend, calls

    def number(self) -> int:
        """Return another number each time, for ids."""
        return next(self._numbers)

    def key(self, name: str = "k") -> str:
        """Return a key of this world alone."""
        return f"{self._prefix}:{name}"

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run *work* in a task, which is ended with the world."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def until(self, is_so: Callable[[], Awaitable[bool] | bool], *, within: float | None = None) -> None:
        """Return as soon as *is_so* says yes; fail if it has not *within* so many seconds."""
        within = self.patience / 3 if within is None else within
        end, pause = self.now + within, 0.001
        while True:
            answer = is_so()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            assert self.now < end, f"not so within {within:g}s"
            await self.sleep(pause)
            pause = min(2 * pause, 0.02)

    async def rows(self) -> list[Row]:
        """Return the tickets of this world that are on the server, as a client of its own sees them."""
        if self._observer is None:
            self._observer = await self.connect(name="observer").start()
        return [row async for row in self._observer.inspect(f"{self._prefix}:*")]

    async def until_waiting(self, count: int, *, within: float | None = None) -> None:
        """Return as soon as the server shows *count* tickets that wait."""
        await self.until(lambda: self._are_waiting(count), within=within)

    async def aclose(self) -> None:
        """End the tasks, close the clients, and note what is `left` when the dead ones' tickets have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.aclose()
        for backend in self._backends:
            await backend.aclose()
        self.left = await self.rows()
        if self._dead:
            await self.sleep(max([row.remaining for row in self.left], default=0.0))
            self.left = await self.rows()
        if self._observer is not None:
            await self._observer.aclose()

    async def _are_waiting(self, count: int) -> bool:
        return sum(not row.inside for row in await self.rows()) == count


class MemoryWorld(World):
    """The memory backend in virtual time: no check takes longer than its computing."""

    slack = 0.02
    patience = 300.0
    loop_factory = VirtualTimeLoop
    server_type: type[MemoryServer] = MemoryServer
    backend_type: type[MemoryBackend] = MemoryBackend

    def __init__(self) -> None:
        super().__init__()
        self._server: MemoryServer | None = None

    def connect(self, **settings: Any) -> LockClient:
        clock = LoopClock()
        self._server = self._server or self.server_type(clock=clock)
        return LockClient(self.backend_type(server=self._server), **{"clock": clock, **settings})

    def trouble(self, client: LockClient) -> Trouble:
        network = getattr(client.backend, "network", None)
        return network if isinstance(network, Faults) else Faults(client)
