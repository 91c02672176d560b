"""Clients far from their server: each message takes its time, and calls overtake answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from aiodlock import LockClient
from aiodlock.backends.memory import MemoryBackend, MemoryServer, Network
from aiodlock.testing import LoopClock

T = TypeVar("T")


class SlowNetwork(Network):
    """Every message is *delay* on its way."""

    def __init__(self, delay: float) -> None:
        self._delay = delay

    def carry(self, verb: str, act: Callable[[], T]) -> Awaitable[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            loop.call_later(self._delay, self._answer, answer, act())

        loop.call_later(self._delay, arrive)
        return answer

    def push(self, deliver: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(self._delay, deliver)

    @staticmethod
    def _answer(answer: asyncio.Future[T], result: T) -> None:
        if not answer.done():
            answer.set_result(result)


@asynccontextmanager
async def far_away(delay: float, count: int) -> AsyncIterator[list[LockClient]]:
    clock = LoopClock()
    server = MemoryServer(clock=clock)
    backends = [MemoryBackend(server=server, network=SlowNetwork(delay)) for _ in range(count)]
    clients = [await LockClient(backend, clock=clock).start() for backend in backends]
    yield clients
    for client in clients:
        await client.aclose()


async def sections(clients: list[LockClient], ttl: float, *, seconds: float) -> list[int]:
    """Return how often each client was inside, two tasks of each wanting nothing else."""
    counts = [0] * len(clients)

    async def work(number: int) -> None:
        while True:
            async with clients[number].lock("k", ttl=ttl):
                counts[number] += 1
                await asyncio.sleep(0.001)

    tasks = [asyncio.create_task(work(number)) for number in range(len(clients)) for _ in range(2)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return counts


async def test_company_that_came_before_the_answer_is_kept_in_mind() -> None:
    """The first one in hears of the second before it hears that it is in: it takes turns all the same."""
    async with far_away(0.025, 2) as clients:
        counts = await sections(clients, 30.0, seconds=5)
    assert min(counts) > 0.8 * max(counts) > 100


@pytest.mark.parametrize("ttl", [0.2, 0.3, 1.0])
async def test_a_place_that_has_to_be_renewed_first_is_used(ttl: float) -> None:
    """The renewal takes longer than a batch: the batch begins after it, else the ticket would be left unused."""
    async with far_away(0.03, 3) as clients:
        counts = await sections(clients, ttl, seconds=5)
    assert min(counts) > 0.8 * max(counts) > 100
