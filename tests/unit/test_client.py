"""A client's life: made anywhere, opened once, closed within bounds, used by one process and one loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Literal

import pytest

import aiodlock
from aiodlock import BackendUnavailableError, ClientClosedError, LockClient, LockLostError
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import Faults, LoopClock, VirtualTimeLoop, settle

LOOP = VirtualTimeLoop


def connect(**settings: Any) -> LockClient:
    return aiodlock.connect("memory://shop", clock=LoopClock(), **settings)


@pytest.fixture
async def other() -> AsyncIterator[LockClient]:
    """Another client of the same server, which sees what is left."""
    async with connect(name="other") as client:
        yield client


async def rows(client: LockClient) -> list[tuple[str, bool]]:
    return [(row.owner, row.inside) async for row in client.inspect()]


def now() -> float:
    return asyncio.get_running_loop().time()


async def stay_and_tidy_up(client: LockClient) -> None:
    """Be in a block until it is cancelled, and half a second longer."""
    async with client.lock("k"):
        try:
            await asyncio.sleep(1_000)
        finally:
            await asyncio.sleep(0.5)


# --- opening -----------------------------------------------------------------------------------------------


def test_connect_needs_no_loop() -> None:
    """So a client can stand at module level; its locks can too."""
    client = aiodlock.connect("memory://", name="web-1")
    lock = client.lock("k")
    assert (repr(client).split()[-2:], client.name, lock.key) == (["not", "started>"], "web-1", "k")

    async def main() -> None:
        async with client, lock as hold:
            assert hold.owner == "web-1"

    asyncio.run(main())
    assert repr(client).endswith(" closed>")


EVERY_CALL: list[Callable[[LockClient], Any]] = [
    lambda client: client.ping(),
    lambda client: anext(client.inspect()),
    lambda client: client.lock("k").acquire(),
    lambda client: client.lock("k").try_acquire(),
    lambda client: client.lock("k").__aenter__(),
    lambda client: client.lock("k").run(int),
    lambda client: client.lock("k").locked(),
    lambda client: client.lock("k").holder(),
    lambda client: client.lock("k").force_release(),
    lambda client: client.lock("k").revoke("please"),
]


async def test_a_client_that_is_not_started_says_how() -> None:
    """Every call names the way to open it."""
    client = connect()
    for call in EVERY_CALL:
        with pytest.raises(ClientClosedError, match=r"not started: use 'async with' or 'await locks.start"):
            await call(client)


async def test_a_closed_client_says_so() -> None:
    """Every call, also through a lock object of before."""
    client = connect()
    await client.start()
    lock = client.lock("k")
    await client.aclose()
    for call in (*EVERY_CALL, lambda _: lock.acquire(), lambda _: lock.__aenter__()):
        with pytest.raises(ClientClosedError, match=r"closed: connect\(\) again"):
            await call(client)


async def test_a_client_closed_before_it_was_started_is_closed() -> None:
    """It is not started any more either."""
    client = connect()
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await client.start()
    with pytest.raises(ClientClosedError, match="closed"):
        await client.ping()


async def test_a_client_closed_while_it_opens_is_closed() -> None:
    """Nothing half-open is left, and the one who opens it hears of it."""

    class Slow(MemoryBackend):
        async def open(self, on_call: Any) -> None:
            await asyncio.sleep(1)
            await super().open(on_call)

    client = LockClient(Slow())
    opening = asyncio.create_task(client.start())
    await asyncio.sleep(0.5)
    await client.aclose()
    with pytest.raises(ClientClosedError, match="closed while it opened"):
        await opening
    with pytest.raises(ClientClosedError, match="closed"):
        await client.ping()


async def test_a_client_is_started_once() -> None:
    """Also by two tasks at once, and not again after it was closed."""
    client = connect()
    outcomes = await asyncio.gather(client.start(), client.start(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LockClient, ClientClosedError]
    with pytest.raises(ClientClosedError, match=r"started before: make another with connect\(\)"):
        await client.start()
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await client.start()


class Unreachable(MemoryBackend):
    """A server that is not there."""

    opens = closes = 0

    async def open(self, on_call: object) -> None:
        self.opens += 1
        await asyncio.sleep(1)
        raise BackendUnavailableError("refused")

    async def aclose(self) -> None:
        self.closes += 1


async def test_a_client_that_cannot_open_is_closed_again() -> None:
    """The backend's error is raised as it is."""
    backend = Unreachable()
    with pytest.raises(BackendUnavailableError, match="refused"):
        async with LockClient(backend):
            pytest.fail("not reached")
    assert (backend.opens, backend.closes) == (1, 1)


async def test_a_cancelled_start_closes_the_backend() -> None:
    """Nothing half-open is left."""
    backend = Unreachable()
    task = asyncio.create_task(LockClient(backend).start())
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert (backend.opens, backend.closes) == (1, 1)


class Unclosable(MemoryBackend):
    """A backend that fails to close."""

    async def aclose(self) -> None:
        await super().aclose()
        raise ZeroDivisionError("bug")


async def test_an_error_of_closing_is_raised() -> None:
    """It is not lost in a background task; it does not hide what failed to open."""
    client = LockClient(Unclosable())
    await client.start()
    with pytest.raises(ZeroDivisionError):
        await client.aclose()

    class Hopeless(Unclosable):
        open = Unreachable.open
        opens = 0

    with pytest.raises(BackendUnavailableError, match="refused"):
        await LockClient(Hopeless()).start()


# --- closing -----------------------------------------------------------------------------------------------


async def test_closing_twice_is_allowed() -> None:
    """At once or at the same time."""
    client = await connect().start()
    await asyncio.gather(client.aclose(), client.aclose())
    await client.aclose()


async def test_waiters_get_an_error(other: LockClient) -> None:
    """Each of them, however they wait; their tickets are gone."""
    client = await connect(name="mine").start()
    async with other.lock("k"):
        waits = [
            client.lock("k").acquire(),
            client.lock("k", fair=True).acquire(wait=60),
            client.lock("k", waiting=aiodlock.Retry(100, 1)).acquire(),
            client.lock("k").run(int),
        ]
        tasks = [asyncio.create_task(wait) for wait in waits]
        await asyncio.sleep(3)
        await client.aclose()
        await asyncio.wait(tasks)
        assert [type(task.exception()) for task in tasks] == [ClientClosedError] * 4
        assert await rows(other) == [("other", True)]


async def test_open_holds_are_lost_and_left(other: LockClient) -> None:
    """Blocks are cancelled and have a moment to end; then nothing of ours is on the server."""

    async def work() -> None:
        async with client.lock("block"):
            try:
                await asyncio.sleep(1_000)
            finally:
                await asyncio.sleep(0.5)
                ended.append(now())

    ended: list[float] = []
    client = await connect().start()
    hold = await client.lock("outside").acquire()
    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    began = now()
    await client.aclose()
    assert ended == [pytest.approx(began + 0.5)]
    assert now() - began == pytest.approx(0.5)
    assert await rows(other) == []
    await asyncio.wait({task})
    assert isinstance(task.exception(), LockLostError)
    assert "its client was closed" in str(task.exception())
    assert hold.lost
    with pytest.raises(LockLostError):
        await hold.release()


async def test_holds_that_were_lost_before_are_left_too(other: LockClient) -> None:
    """Their blocks have not ended: they have the same moment for it."""

    async def work(key: str, on_lost: Literal["cancel", "flag"], longer: float) -> None:
        async with client.lock(key, max_hold=1, on_lost=on_lost):
            try:
                await asyncio.sleep(2)
            finally:
                await asyncio.sleep(longer)

    client = await connect().start()
    tasks = [asyncio.create_task(work("a", "cancel", 0.7)), asyncio.create_task(work("b", "flag", 100))]
    await asyncio.sleep(1.5)
    assert len(await rows(other)) == 2
    began = now()
    await client.aclose()
    assert now() - began == pytest.approx(1)
    assert await rows(other) == []
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [LockLostError, LockLostError]


async def test_a_second_close_waits_for_the_first(other: LockClient) -> None:
    """Whoever closes may rely on it."""
    client = await connect().start()
    task = asyncio.create_task(stay_and_tidy_up(client))
    await settle()
    first = asyncio.create_task(client.aclose())
    await settle()
    await client.aclose()
    assert await rows(other) == []
    await first
    with pytest.raises(LockLostError):
        await task


async def test_a_block_that_does_not_end_is_waited_for_a_second(other: LockClient) -> None:
    """Closing goes on without it; when it ends at last, it raises and harms nothing."""

    async def stubborn() -> None:
        async with client.lock("k"):
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(1_000)
            await asyncio.sleep(30)

    client = await connect().start()
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(1)
    began = now()
    await client.aclose()
    assert now() - began == pytest.approx(1)
    await asyncio.wait({task})
    assert isinstance(task.exception(), LockLostError)


async def test_closing_inside_a_block_ends_it() -> None:
    """A client closed by its own block does not wait for itself for ever."""
    client = await connect().start()
    began = now()
    with pytest.raises(LockLostError, match="its client was closed"):
        async with client.lock("k"):
            await client.aclose()
    assert now() - began <= 1.1


@pytest.mark.parametrize("dead", ["refuses", "says nothing"])
async def test_closing_is_bounded_with_a_dead_server(dead: str) -> None:
    """Holds, waiters and a ping under way: all of them end, within a few seconds, and no task is left."""
    server = MemoryServer(clock=LoopClock())
    client = await LockClient(MemoryBackend(server=server), clock=LoopClock()).start()
    blocker = await LockClient(MemoryBackend(server=server), clock=LoopClock()).start()
    faults = Faults(client)
    taken = await blocker.lock("busy").acquire()
    hold = await client.lock("mine").acquire()
    waiter = asyncio.create_task(client.lock("busy").acquire())
    await settle()
    faults.go_down() if dead == "refuses" else faults.fall_silent()
    ping = asyncio.create_task(client.ping())
    await settle()
    began = now()
    await client.aclose()
    assert now() - began <= 3
    await asyncio.wait({waiter, ping})
    assert isinstance(waiter.exception(), ClientClosedError)
    assert isinstance(ping.exception(), BackendUnavailableError if dead == "refuses" else ClientClosedError)
    assert hold.lost
    await taken.release()
    await blocker.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cancelled_close_closes(other: LockClient) -> None:
    """Then the cancellation goes on."""
    client = await connect().start()
    block = asyncio.create_task(stay_and_tidy_up(client))
    await settle()
    task = asyncio.create_task(client.aclose())
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait({task, block})
    assert task.cancelled()
    assert isinstance(block.exception(), LockLostError)
    assert await rows(other) == []


async def test_a_lingering_ticket_leaves_with_its_client(other: LockClient) -> None:
    """Nothing is left, also nothing idle."""
    async with connect() as client:
        async with client.lock("k", linger=60):
            pass
        assert len(await rows(other)) == 1
    assert await rows(other) == []


# --- sharing -----------------------------------------------------------------------------------------------


async def test_private_servers_are_private_and_named_ones_are_shared() -> None:
    """`memory://` is for one client; `memory://name` lives until its last client closes."""
    async with aiodlock.connect("memory://") as one, aiodlock.connect("memory://") as two, one.lock("k"):
        assert not await two.lock("k").locked()
    async with connect() as one, connect() as two, one.lock("k"):
        assert await two.lock("k").locked()


async def test_two_clients_of_one_process_are_two_owners() -> None:
    """A task that holds a key through one client does not re-enter through another."""
    async with connect() as one, connect() as two, one.lock("k"):
        assert await two.lock("k").try_acquire() is None


# --- who may use it ----------------------------------------------------------------------------------------


def test_another_loop_is_refused() -> None:
    """Through every call, also through a lock object that is in use in the first loop."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = aiodlock.connect("memory://")
        first.run(client.start())
        lock = client.lock("k")

        async def hold_and_queue() -> tuple[Any, Any]:
            hold = await lock.acquire()
            waiter = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0)
            return hold, waiter

        hold, waiter = first.run(hold_and_queue())

        async def refused() -> None:
            for call in (*EVERY_CALL, lambda _: lock.acquire(), lambda _: lock.__aenter__(), lambda _: lock.run(int)):
                with pytest.raises(ClientClosedError, match="another event loop"):
                    await call(client)
            with pytest.raises(ClientClosedError, match="another event loop"):
                await client.aclose()

        second.run(refused())

        async def go_on() -> None:
            await hold.release()
            await (await waiter).release()
            await client.aclose()

        first.run(go_on())


def test_a_loop_in_another_thread_is_refused() -> None:
    """Also while a task of the first loop runs, which must not be taken for ours."""
    client = aiodlock.connect("memory://")
    lock = client.lock("k")

    async def enter_from_elsewhere() -> None:
        async with lock:
            pass
        thread = threading.Thread(target=lambda: seen.append(_error_of(lock.__aenter__)))
        thread.start()
        thread.join()  # this task is the running one of its loop meanwhile

    async def main() -> None:
        async with client:
            await enter_from_elsewhere()

    seen: list[BaseException | None] = []
    asyncio.run(main())
    assert [type(error) for error in seen] == [ClientClosedError]


def test_a_named_server_is_for_one_loop() -> None:
    """Two of them would change it at the same time, and none would wake the other."""

    async def main() -> None:
        async with aiodlock.connect("memory://one-loop"):
            other = aiodlock.connect("memory://one-loop")
            seen.append(await asyncio.to_thread(_error_of, other.start))
        async with aiodlock.connect("memory://one-loop"):  # the first loop is over then
            pass

    seen: list[BaseException | None] = []
    asyncio.run(main())
    assert [type(error) for error in seen] == [aiodlock.ConfigurationError]
    assert "another event loop" in str(seen[0])


def _error_of(call: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    async def main() -> BaseException | None:
        try:
            await call()
        except aiodlock.AiodlockError as error:
            return error
        return None

    return asyncio.run(main())


def test_a_lock_at_rest_stays_so_where_another_loop_is_refused() -> None:
    """The client of the first loop is not touched by a call from the second."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = aiodlock.connect("memory://")
        first.run(client.start())
        lock = client.lock("k")
        first.run(lock.run(int))

        async def refused() -> None:
            for call in (lock.__aenter__, lambda: lock.run(int), lock.acquire):
                with pytest.raises(ClientClosedError, match="another event loop"):
                    await call()

        second.run(refused())
        assert client._engine is not None
        assert not client._engine.lines_in_use()
        first.run(client.aclose())


FORKED = """
import asyncio, os, sys, aiodlock

never_started = aiodlock.connect("memory://")      # at module level, as under a pre-forking server

async def main():
    async with aiodlock.connect("memory://") as started:
        lock = started.lock("k")
        async with lock as hold:
            pid = os.fork()
            if pid == 0:
                asyncio.run(child(started, lock, hold))
        os.waitpid(pid, 0)
        async with lock:                           # the parent goes on as if nothing had happened
            print("parent", flush=True)

async def child(started, lock, hold):
    for call in (started.ping, lock.acquire, lock.__aenter__, lambda: lock.run(int), hold.release):
        try:
            await call()
        except aiodlock.ClientClosedError as error:
            print("parent process" in str(error), flush=True)
    await started.aclose()                         # does nothing to the parent's connection
    async with never_started, never_started.lock("k") as hold:
        print(hold.owner == f"{os.uname().nodename}:{os.getpid()}", flush=True)
    os._exit(0)

asyncio.run(main())
"""


def test_a_forked_process_is_refused() -> None:
    """A child says so at every call; a client that was not started before the fork works there, under its own pid."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["True"] * 6 + ["parent"], done.stderr
    assert done.returncode == 0
