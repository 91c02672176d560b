"""Events: off the lock path, bounded, and no sink can harm a lock."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

import aiodlock
from aiodlock import events as module
from aiodlock.events import Event, EventQueue, EventsDropped, HoldLost, LockAcquired, LockReleased
from aiodlock.testing import Faults

NAMES = [name for name in module.__all__ if isinstance(getattr(module, name), type) and name != "EventQueue"]


@pytest.mark.parametrize("name", NAMES)
def test_an_event_is_a_frozen_fact_with_a_name(name: str) -> None:
    """Noun, dot, past participle; nobody changes it on its way."""
    kind = getattr(module, name)
    assert issubclass(kind, Event)
    noun, _, verb = kind.name.partition(".")
    assert noun.isalpha()
    assert verb.isalpha()
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen


def test_names_are_unique() -> None:
    """A sink may dispatch on them."""
    names = [getattr(module, name).name for name in NAMES]
    assert len(names) == len(set(names))


async def test_events_are_handed_over_later_and_in_order() -> None:
    """`put` only queues: the sink runs in a later step of the loop."""
    seen: list[Event] = []
    queue = EventQueue(seen.append)
    first, second = LockAcquired("lock", "k", 1), LockReleased("lock", "k", 1, 0.5)
    queue.put(first)
    queue.put(second)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [first, second]


async def test_the_queue_is_bounded_and_drops_are_counted() -> None:
    """A sink that is too slow loses events, never the lock its time."""
    seen: list[Event] = []
    queue = EventQueue(seen.append, bound=3)
    for n in range(10):
        queue.put(LockAcquired("lock", "k", n))
    await asyncio.sleep(0)
    assert seen == [*(LockAcquired("lock", "k", n) for n in range(3)), EventsDropped(7)]
    queue.put(LockAcquired("lock", "k", 11))
    await asyncio.sleep(0)
    assert seen[4:] == [LockAcquired("lock", "k", 11)]


async def test_a_failing_sink_is_counted_and_the_next_event_still_comes() -> None:
    """Its error goes nowhere near a lock."""
    seen: list[Event] = []

    def sink(event: Event) -> None:
        seen.append(event)
        raise ValueError("broken sink")

    queue = EventQueue(sink)
    for n in range(3):
        queue.put(LockAcquired("lock", "k", n))
    await asyncio.sleep(0)
    assert (len(seen), queue.failed, queue.dropped) == (3, 3, 0)


def test_an_event_without_a_running_loop_waits_for_one() -> None:
    """The garbage collector may find a dropped hold when no loop runs."""
    seen: list[Event] = []
    queue = EventQueue(seen.append)
    queue.put(LockAcquired("lock", "k", 1))

    async def later() -> None:
        queue.put(LockAcquired("lock", "k", 2))
        await asyncio.sleep(0)

    asyncio.run(later())
    assert [event.fence for event in seen] == [1, 2]


async def test_locks_work_with_a_sink_that_always_fails() -> None:
    """Acquire, hand off, lose and close, as if nobody listened."""

    def sink(event: Event) -> None:
        raise ValueError(event.name)

    async def enter() -> None:
        async with lock:
            await asyncio.sleep(0)

    async with aiodlock.connect("memory://", on_event=sink) as locks:
        lock = locks.lock("k")
        await asyncio.gather(*(enter() for _ in range(10)))
        with pytest.raises(aiodlock.LockLostError):
            async with lock as hold:
                Faults(locks).lose(hold)
                await asyncio.sleep(1)


async def test_a_client_tells_of_acquire_release_and_loss() -> None:
    """What happened to a hold, in order, with its fence; the last ones are flushed by closing."""
    seen: list[Event] = []
    async with aiodlock.connect("memory://", on_event=seen.append) as locks:
        async with locks.lock("k") as first:
            pass
        lost = await locks.lock("k").acquire()
        Faults(locks).lose(lost)
        await lost.wait_lost()
        last = await locks.lock("other").acquire()
        last.release_nowait()
    kinds = [(type(event), getattr(event, "fence", None)) for event in seen]
    assert kinds == [
        (LockAcquired, first.fence),
        (LockReleased, first.fence),
        (LockAcquired, lost.fence),
        (HoldLost, lost.fence),
        (LockAcquired, last.fence),
        (LockReleased, last.fence),
    ]
