"""What waiting and holding cost while nothing happens. Each part runs in a process of its own and prints JSON:

``python -m benchmarks.core_waiters parked 100000 10`` and ``… held 10000 3``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from aiodlock import Lock, connect

__all__ = ["main"]

_COMPARED = 10_000  # bare tasks, to know what a caller's own task takes
_TTL = 3.0  # short, so that renewing falls into the time we look


class _Nothing:
    """Something to wait for that remembers nobody, so that only the waiting task itself is weighed."""

    _asyncio_future_blocking = False

    def __await__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def add_done_callback(self, callback: object, *, context: object = None) -> None:
        pass


async def _wait_for_nothing() -> None:
    await _Nothing()


async def _wait_for_lock(lock: Lock) -> None:
    async with lock:
        pass


async def _weigh(make: Callable[[], Coroutine[Any, Any, None]], count: int) -> tuple[float, list[asyncio.Task[None]]]:
    """Return the bytes that each of *count* parked tasks takes, and the tasks."""
    before, _ = tracemalloc.get_traced_memory()
    tasks = [asyncio.create_task(make()) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)
    after, _ = tracemalloc.get_traced_memory()
    return (after - before) / count, tasks


async def _parked(count: int, seconds: float) -> dict[str, float]:
    async with connect("memory://") as locks:
        lock = locks.lock("parked")
        async with lock:
            tracemalloc.start()
            own, bare = await _weigh(_wait_for_nothing, _COMPARED)
            waiting, waiters = await _weigh(lambda: _wait_for_lock(lock), count)
            tracemalloc.stop()
            ours = _tasks_besides(len(bare) + len(waiters))
            return {"bytes": waiting - own, "tasks": ours, "cpu": await _cpu_share(seconds)}


async def _held(count: int, seconds: float) -> dict[str, float]:
    async with connect("memory://") as locks:
        holds = [await locks.lock("held-0", ttl=_TTL).acquire()]
        tasks, timers = _tasks_besides(0), _timers()
        holds += [await locks.lock(f"held-{number}", ttl=_TTL).acquire() for number in range(1, count)]
        cpu = await _cpu_share(seconds)
        return {
            "tasks": _tasks_besides(0),
            "timers": _timers(),
            "tasks_of_one": tasks,
            "timers_of_one": timers,
            "lost": sum(hold.lost for hold in holds),
            "cpu": cpu,
        }


def _tasks_besides(known: int) -> int:
    return len(asyncio.all_tasks()) - known - 1


def _timers() -> int:
    loop: Any = asyncio.get_running_loop()  # only the stock loop lets its timers be counted
    return sum(not handle.cancelled() for handle in loop._scheduled)


async def _cpu_share(seconds: float) -> float:
    """Return the share of a core that this process uses while it is left alone."""
    before = time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - before) / seconds


def main() -> None:
    part, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

    async def show() -> None:
        facts = await {"parked": _parked, "held": _held}[part](count, seconds)
        print(json.dumps(facts), flush=True)
        # The bare tasks can never be cancelled; the rest ends with the process.
        os._exit(0)

    asyncio.run(show())


if __name__ == "__main__":
    main()
