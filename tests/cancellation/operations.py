"""Every public coroutine, as its user writes it. Another synchronizer is another row.

An operation ends as a user expects, whatever the state: errors that a state brings about are taken here, so that all
that can come out of one is a cancellation, or a fault. One with `arms` does something first that is not swept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from aiodlock._core.stock import Returned, Taken
from aiodlock.errors import AcquireTimeoutError, BackendUnavailableError, ClientClosedError, LockLostError
from aiodlock.inventory.stock import SegmentedStock
from tests.cancellation.kinds import KEY
from tests.cancellation.stage import SECTION, TTL, Stage

__all__ = ["OPERATIONS", "Operation"]

WAITS = ("free", "elsewhere", "local", "company", "idle", "overtaken", "cut")
BAD = (
    "refused",
    "goes away",
    "silent",
    "join unanswered",
    "join lost",
    "join late",
    "join late, elsewhere",
    "join late, company",
    "leave unanswered",
    "leave lost",
    "leave late",
)
HELD = ("free", "company", "refused", "goes away", "leave unanswered", "leave lost", "leave late", "renew unanswered")
ASKS = ("free", "elsewhere", "goes away", "silent", "inspect unanswered")
SHARING = ("plain", "limit", "lingering", "capped", "polling", "retrying")
ALL = (*SHARING, "fair", "fixed")


@dataclass(frozen=True, slots=True)
class Operation:
    """What is swept, and the states and policies that make a difference to it."""

    run: Callable[[Stage], Awaitable[None]]
    states: tuple[str, ...]
    policies: tuple[str, ...]
    kinds: tuple[str, ...]
    arms: bool


OPERATIONS: dict[str, Operation] = {}

_Run = Callable[[Stage], Awaitable[None]]


def operation(
    states: tuple[str, ...],
    policies: tuple[str, ...] = ("plain",),
    *,
    kinds: tuple[str, ...] = ("lock",),
    arms: bool = False,
) -> Callable[[_Run], _Run]:
    def add(run: _Run) -> _Run:
        OPERATIONS[run.__name__] = Operation(run, states, policies, kinds, arms)
        return run

    return add


@operation(("free",))
async def control(stage: Stage) -> None:
    """Nothing of ours: whatever is found here is asyncio's."""
    await asyncio.sleep(SECTION)
    await asyncio.sleep(SECTION)


# --- the lock ------------------------------------------------------------------------------------------------------


@operation((*WAITS, *BAD), ALL)
async def block(stage: Stage) -> None:
    with suppress(AcquireTimeoutError):
        async with stage.lock():
            await stage.section()


@operation((*WAITS, "join late"), ("plain", "fair"))
async def block_twice(stage: Stage) -> None:
    """The second one meets what the first one left."""
    lock = stage.lock()
    for _ in range(2):
        async with lock:
            await stage.section()


@operation(("free", "company"), ("plain", "fair"))
async def block_in_block(stage: Stage) -> None:
    lock = stage.lock()
    async with lock, lock:
        await stage.section()


@operation((*WAITS, *BAD), ALL)
async def acquire_for_ever(stage: Stage) -> None:
    hold = await stage.lock().acquire(wait=None)
    try:
        await stage.section()
    finally:
        with suppress(LockLostError):  # or it would stand in for a cancellation
            await hold.release()


@operation((*WAITS, *BAD), ALL)
async def acquire_with_limit(stage: Stage) -> None:
    with suppress(AcquireTimeoutError):
        async with await stage.lock().acquire(wait=2 * SECTION):
            await stage.section()


@operation((*WAITS, *BAD), ALL)
async def acquire_at_once(stage: Stage) -> None:
    with suppress(AcquireTimeoutError, BackendUnavailableError):
        async with await stage.lock().acquire(wait=0):
            await stage.section()


@operation((*WAITS, *BAD), ALL)
async def try_acquire(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        if hold := await stage.lock().try_acquire():
            async with hold:
                await stage.section()


@operation((*WAITS, *BAD), SHARING)
async def run(stage: Stage) -> None:
    def inside() -> None:
        with stage.alone():
            pass

    with suppress(AcquireTimeoutError):
        await stage.lock().run(inside)


@operation((*WAITS, "goes away"), SHARING)
async def run_beside_another(stage: Stage) -> None:
    """What somebody else asked to run is run, whatever becomes of ours."""

    async def beside() -> None:
        with suppress(ClientClosedError):
            assert await stage.lock(wait=None).run(lambda: 42) == 42

    stage.neighbour(beside())
    with suppress(AcquireTimeoutError):
        await stage.lock().run(lambda: None)


# --- the hold ------------------------------------------------------------------------------------------------------


@operation(HELD, ALL, arms=True)
async def release(stage: Stage) -> None:
    hold = await stage.lock(wait=None).acquire()
    stage.arm()
    await hold.release()


@operation(HELD, ALL, arms=True)
async def hold_block(stage: Stage) -> None:
    hold = await stage.lock(wait=None).acquire()
    stage.arm()
    async with hold:
        await stage.section()


@operation(HELD, ALL, arms=True)
async def extend(stage: Stage) -> None:
    async with stage.lock(wait=None) as hold:
        stage.arm()
        with suppress(BackendUnavailableError):
            await hold.extend(2 * TTL)


@operation(HELD, ALL, arms=True)
async def reenter(stage: Stage) -> None:
    async with stage.lock(wait=None) as hold:

        async def child() -> None:
            async with hold.reenter():
                await stage.section()

        stage.arm()
        await asyncio.create_task(child())


@operation(("free", "company"), ALL, arms=True)
async def outlived_by_child(stage: Stage) -> None:
    """The child is inside when its parent leaves: the last one out gives the place up."""
    async with stage.lock(wait=None) as hold:
        entered = asyncio.Event()

        async def child() -> None:
            with suppress(LockLostError):
                async with hold.reenter():
                    entered.set()
                    await asyncio.sleep(2 * SECTION)

        stage.neighbour(child())
        await entered.wait()
        stage.arm()
        await asyncio.sleep(SECTION)


@operation(HELD, ALL, arms=True)
async def wait_lost(stage: Stage) -> None:
    hold = await stage.lock(wait=None, on_lost="flag").acquire()
    stage.arm()
    try:
        stage.later(SECTION, stage.lose)
        await hold.wait_lost()
    finally:
        with suppress(LockLostError):
            await hold.release()


@operation(("free", "company", "goes away"), ALL, arms=True)
async def lost_block(stage: Stage) -> None:
    """Our own cancel of the block, and somebody else's."""
    with suppress(LockLostError):
        async with stage.lock(wait=None):
            stage.arm()
            stage.later(SECTION, stage.lose)
            await asyncio.sleep(3 * SECTION)


@operation(("free", "company"), ("plain", "fair"), arms=True)
async def lost_nested_block(stage: Stage) -> None:
    lock = stage.lock(wait=None)
    with suppress(LockLostError):
        async with lock, lock:
            stage.arm()
            stage.later(SECTION, stage.lose)
            await asyncio.sleep(3 * SECTION)


# --- questions -----------------------------------------------------------------------------------------------------


@operation(ASKS)
async def locked(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.lock().locked()


@operation(ASKS)
async def holder(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.lock().holder()


@operation((*ASKS, "local", "leave unanswered", "leave lost"))
async def force_release(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        stage.allow_overlap()
        await stage.lock().force_release()


@operation(ASKS)
async def inspect(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        [row async for row in stage.locks.inspect("*")]


@operation(("free", "goes away", "silent"))
async def ping(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.locks.ping()


@operation(ASKS)
async def revoke(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.lock().revoke("please")


# --- the other synchronizers ---------------------------------------------------------------------------------------


@operation(("free", "company", "goes away", "change unanswered"), ("plain", "fair"), kinds=("write",), arms=True)
async def downgrade(stage: Stage) -> None:
    async with stage.lock() as hold:
        stage.arm()
        with suppress(BackendUnavailableError):
            await hold.downgrade()
        await asyncio.sleep(SECTION)


@operation(("free", "company", "goes away", "change unanswered"), ("plain", "fair"), kinds=("write",), arms=True)
async def stop_writing_first(stage: Stage) -> None:
    """Write, read too, stop writing: the rest is a read lock."""
    both = stage.locks.rwlock(KEY, **stage.policy)
    write = await both.write().acquire()
    async with both.read():
        stage.arm()
        await write.release()
        await asyncio.sleep(SECTION)


@operation(("free", "elsewhere", "goes away", "change unanswered"), kinds=("semaphore",))
async def resize(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.lock().resize(2)


@operation(ASKS, kinds=("semaphore",))
async def participants(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.lock().participants()


@operation(ASKS, kinds=("election",))
async def leader(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        await stage.locks.election(KEY).leader()


@operation(("free", "goes away", "silent", "latch unanswered"))
async def count_down(stage: Stage) -> None:
    latch = stage.locks.latch(KEY, count=3, ttl=TTL)
    assert await latch.count_down() == 2
    assert await latch.count() == 2


@operation(("free", "goes away", "silent", "latch unanswered"))
async def opened(stage: Stage) -> None:
    """Another client opens it after a while."""
    stage.later(5 * SECTION, stage.open_latch)
    await stage.locks.latch(KEY, count=1, ttl=TTL).opened()


@operation(("free",))
async def opened_too_late(stage: Stage) -> None:
    with suppress(AcquireTimeoutError):
        await stage.locks.latch(KEY, count=1, ttl=TTL).opened(2 * SECTION)


# --- stock ---------------------------------------------------------------------------------------------------------

STOCK = ("free", "goes away", "silent", "take unanswered", "take lost", "take late")
CHANGES = ("free", "goes away", "restock unanswered", "put_back unanswered", "confirm unanswered")


@operation(STOCK, arms=True)
async def take(stage: Stage) -> None:
    """Beside another of ours; whatever becomes of it, the order has one article or none, and can be put back."""
    stock = stage.locks.stock(KEY, segments=2, patience=TTL)
    await stock.load(5)
    stage.balance(stock)

    async def beside() -> None:
        with suppress(BackendUnavailableError, ClientClosedError):
            assert isinstance(await stock.take(buyer="bob", order="o-2"), Taken)

    stage.neighbour(beside())
    stage.arm()
    try:
        assert isinstance(await stock.take(buyer="ann", order="o-1"), Taken)
    finally:
        stage.neighbour(_put_back(stock, "o-1"))


@operation(STOCK, arms=True)
async def reserve(stage: Stage) -> None:
    stock = stage.locks.stock(KEY, once_per_buyer=True, patience=TTL)
    await stock.load(5)
    stage.balance(stock)
    stage.arm()
    try:
        await stock.reserve(buyer="ann", order="o-1", hold_for=TTL)
        await stock.confirm(buyer="ann", order="o-1")
    finally:
        stage.neighbour(_put_back(stock, "o-1"))


async def _put_back(stock: SegmentedStock, order: str) -> None:
    with suppress(BackendUnavailableError, ClientClosedError):
        assert isinstance(await stock.put_back(buyer="ann", order=order), Returned)


@operation(CHANGES)
async def restock(stage: Stage) -> None:
    stock = stage.locks.stock(KEY, segments=2, outbox=True, patience=TTL)
    stage.balance(stock)
    assert await stock.load(5)
    await stock.add(2)
    await stock.rebalance()
    assert (await stock.remaining()).total == 7
    assert await stock.put_back(buyer="ann", order="o-1") == Returned(0)
    assert await stock.confirm(buyer="ann", order="o-1") == Returned(0)
    assert (await stock.audit()).is_balanced
    assert not await stock.read_outbox()
    assert (await stock.close()).total == 7


# --- the client ----------------------------------------------------------------------------------------------------


@operation(("free", "open unanswered"))
async def start(stage: Stage) -> None:
    with suppress(BackendUnavailableError):
        client = await stage.new_client().start()
        stage.neighbour(client.aclose())


@operation(("free", "elsewhere"))
async def client_block(stage: Stage) -> None:
    async with stage.new_client() as locks, locks.lock(KEY, ttl=TTL):
        await stage.section()


@operation((*WAITS, *BAD), ("plain", "fair", "lingering"), arms=True)
async def aclose(stage: Stage) -> None:
    """Others of ours are inside and wait while we close."""
    stage.allow_overlap()
    for _ in range(2):
        stage.neighbour(stage.pass_through(stage.lock(), stay=1.0))
    await asyncio.sleep(SECTION)
    stage.arm()
    await stage.locks.aclose()


@operation(("free", "silent"), kinds=("lock", "semaphore"))
async def ask_while_closing(stage: Stage) -> None:
    """A question without an answer ends with the client, as an error and not as a cancellation."""
    stage.neighbour(stage.locks.aclose())
    with suppress(BackendUnavailableError, ClientClosedError):
        await stage.lock().locked()


@operation(("free", "company", "leave lost"), ("plain", "fair", "fixed"), arms=True)
async def aclose_with_hold(stage: Stage) -> None:
    """A hold outside any block ends with its client."""
    stage.allow_overlap()
    hold = await stage.lock(on_lost="flag").acquire()
    stage.arm()
    await stage.locks.aclose()
    assert hold.lost
