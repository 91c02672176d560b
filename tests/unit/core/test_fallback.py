"""A client with a fallback: when it degrades, whom a degraded hold excludes, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

import aiodlock
from aiodlock import (
    AcquireTimeoutError,
    BackendUnavailableError,
    ConfigurationError,
    Hold,
    LockClient,
    LockLostError,
    UnsupportedError,
)
from aiodlock._core.fallback import WithFallback
from aiodlock.backends.base import Backend, OnCall
from aiodlock.backends.memory import MemoryBackend, MemoryServer, Network
from aiodlock.events import DegradationBegun, DegradationEnded, Event, HoldLost
from aiodlock.testing import Faults, LoopClock, settle
from tests.unit.core.twins import Break, fails, set_to

TTL = 6.0
BACK = 2.0  # seconds after which its own server has surely been noticed


@pytest.fixture
async def degradable(events: list[Event]) -> AsyncIterator[Callable[..., LockClient]]:
    """Makes clients of one server with one fallback, each as if in another process."""
    clients = 0

    def make() -> LockClient:
        nonlocal clients
        clients += 1
        return aiodlock.connect(
            "memory://shop",
            name=f"web-{clients}",
            clock=LoopClock(),
            on_event=events.append,
            fallback="memory://spare",
        )

    return make


@pytest.fixture
async def locks(degradable: Callable[..., LockClient]) -> AsyncIterator[LockClient]:
    async with degradable() as client:
        yield client


@pytest.fixture
async def other(locks: LockClient, degradable: Callable[..., LockClient]) -> AsyncIterator[LockClient]:
    async with degradable() as client:
        yield client


@pytest.fixture
async def spare(locks: LockClient) -> AsyncIterator[LockClient]:
    """Looks at the fallback server."""
    async with aiodlock.connect("memory://spare", name="looker", clock=LoopClock()) as client:
        yield client


@pytest.fixture
async def shop(locks: LockClient) -> AsyncIterator[LockClient]:
    """Looks at the own server, which it always reaches, and has no fallback."""
    async with aiodlock.connect("memory://shop", name="looker", clock=LoopClock()) as client:
        yield client


async def inside(client: LockClient) -> list[str]:
    return [row.owner async for row in client.inspect() if row.inside]


async def degrade(locks: LockClient, faults: Faults) -> None:
    """Have the own server go away, and a first task notice it."""
    faults.go_down()
    async with locks.lock("first", ttl=TTL):
        pass


def fall_silent(backend: Backend | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it answer no join from now on."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(backend, "join", lambda *_, **__: loop.create_future())


def told(events: list[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, DegradationBegun | DegradationEnded)]


# --- it begins -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_silent", [False, True])
async def test_after_one_ttl_without_an_answer_the_fallback_stands_in(
    locks: LockClient, spare: LockClient, faults: Faults, events: list[Event], is_silent: bool
) -> None:
    """Not before: by then whatever anybody had on the own server has ended. Then at once."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    (faults.fall_silent if is_silent else faults.go_down)()
    async with locks.lock("k", ttl=TTL) as hold:
        assert TTL <= loop.time() - began < 1.2 * TTL
        assert hold.degraded
        assert await inside(spare) == ["web-1"]
    again = loop.time()
    async with locks.lock("k", ttl=TTL), locks.lock("l", ttl=TTL):
        assert loop.time() == again
    assert told(events) == ["degradation.begun"]
    assert await inside(spare) == []


async def test_a_hold_of_its_own_server_is_not_degraded(locks: LockClient) -> None:
    async with locks.lock("k") as hold:
        assert not hold.degraded
        assert hold.fence > 0


async def test_a_degraded_hold_has_no_fence(locks: LockClient, faults: Faults) -> None:
    """It would not grow over those of the own server."""
    await degrade(locks, faults)
    async with locks.lock("k") as hold:
        with pytest.raises(UnsupportedError, match="'k'"):
            _ = hold.fence
    assert hold.degraded


async def test_a_server_that_answers_others_is_not_degraded(
    locks: LockClient, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cluster in which one shard is away: it would no longer exclude anybody on the others."""
    async with locks.lock("held", ttl=TTL):
        fall_silent(locks.backend, monkeypatch)
        with pytest.raises(BackendUnavailableError, match="'k'"):
            await locks.lock("k", ttl=TTL).run(int)
    assert told(events) == []


async def test_a_fallback_that_is_silent_too_is_an_error(
    locks: LockClient, spare: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    await degrade(locks, faults)
    fall_silent(locks._fallback, monkeypatch)
    with pytest.raises(BackendUnavailableError, match="'k'"):
        await locks.lock("k", ttl=TTL).acquire()


async def test_everybody_who_waited_is_served(locks: LockClient, spare: LockClient, faults: Faults) -> None:
    """Tasks that waited for somebody, functions, tries, readers, permits; nothing is left behind on either server."""
    async with aiodlock.connect("memory://shop", clock=LoopClock()) as shop, shop.lock("busy"):
        waiting = [asyncio.create_task(locks.lock("busy", ttl=TTL).acquire()) for _ in range(3)]
        await settle()
        faults.go_down()
        tasks = [
            asyncio.create_task(locks.lock("f", ttl=TTL).run(lambda: 7)),
            asyncio.create_task(locks.lock("t", ttl=TTL).try_acquire()),
            asyncio.create_task(locks.rwlock("r", ttl=TTL).read().acquire()),
            asyncio.create_task(locks.semaphore("s", permits=2, ttl=TTL).acquire()),
        ]
        gone = asyncio.create_task(locks.lock("f", ttl=TTL).acquire())
        await asyncio.sleep(TTL / 2)
        gone.cancel()
        seven, *holds = await asyncio.gather(*tasks)
        assert seven == 7
        for task in waiting:
            hold = await task
            assert hold.degraded
            await hold.release()
        for hold in holds:
            assert isinstance(hold, Hold)
            assert hold.degraded
            await hold.release()
    assert await inside(spare) == []
    assert not locks._at_work().places
    assert not locks._at_work().waiting


async def test_every_kind_is_lent_but_latches(locks: LockClient, spare: LockClient, faults: Faults) -> None:
    await degrade(locks, faults)
    async with (
        locks.rwlock("r").write() as writer,
        locks.semaphore("p", permits=2) as permit,
        locks.segmented("s", segments=2).any() as segment,
        locks.multi(locks.lock("x"), locks.lock("y")) as both,
        locks.election("e").leadership() as leader,
    ):
        assert all(hold.degraded for hold in (writer, permit, segment, *both.holds, leader))
    assert await inside(spare) == ["web-1"]  # how many segments there are


async def test_callers_who_wait_less_than_a_ttl_degrade_too(
    locks: LockClient, faults: Faults, events: list[Event]
) -> None:
    """One after the other: it counts how long the server is silent, not how long one of them waits."""
    faults.go_down()
    for _ in range(5):
        with pytest.raises(AcquireTimeoutError):
            await locks.lock("k", ttl=TTL).acquire(TTL / 5)
    async with locks.lock("k", ttl=TTL, wait=TTL / 5) as hold:
        assert hold.degraded
    assert told(events) == ["degradation.begun"]


async def test_a_lease_that_ended_in_silence_counts(locks: LockClient, faults: Faults) -> None:
    """Its renewals were asked and not answered: whoever comes then does not wait another ttl."""
    loop = asyncio.get_running_loop()
    held = await locks.lock("k", ttl=TTL).acquire()
    faults.fall_silent()
    await held.wait_lost()
    await asyncio.sleep(TTL / 2)
    began = loop.time()
    async with locks.lock("l", ttl=TTL) as hold:
        assert hold.degraded
        assert loop.time() - began < TTL / 2


# --- whom it excludes ----------------------------------------------------------------------------------------


async def test_those_who_degraded_to_the_same_server_exclude_each_other(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    others = Faults(other)
    await degrade(locks, faults)
    await degrade(other, others)
    hold = await locks.lock("k", ttl=TTL).acquire()
    with pytest.raises(AcquireTimeoutError):
        await other.lock("k", ttl=TTL).acquire(TTL)
    assert await other.lock("k", ttl=TTL).try_acquire() is None
    assert await other.lock("k").force_release() == 1
    async with other.lock("k", ttl=TTL):
        assert hold.lost


async def held_on_both(locks: LockClient, faults: Faults) -> bool:
    """Have a task inside with a long lease when others degrade; return whether one of those was inside too."""
    async with locks.lock("k", ttl=100.0) as long:
        await asyncio.sleep(TTL)
        await degrade(locks, faults)
        tried = await asyncio.create_task(locks.lock("k", ttl=TTL).try_acquire())
        asked = asyncio.create_task(locks.lock("k", ttl=TTL).acquire())
        await asyncio.sleep(TTL)
        assert not long.lost
        both = tried is not None or asked.done()
    for hold in (tried, await asked):
        if hold is not None:
            assert hold.degraded
            with suppress(LockLostError):  # of a task that is done
                await hold.release()
    return both


async def test_whoever_is_inside_on_the_own_server_keeps_the_others_here_out(locks: LockClient, faults: Faults) -> None:
    """The longer lease is still running."""
    assert not await held_on_both(locks, faults)


async def test_a_hold_that_is_passed_over_is_found(
    locks: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(WithFallback, "_is_kept_out", lambda self, ticket: False)
    assert await held_on_both(locks, faults)


async def test_whoever_stands_in_line_there_takes_another_ticket(
    locks: LockClient, shop: LockClient, faults: Faults
) -> None:
    """When his own ttl of silence is over, not before; the old ticket has left when the server is back."""
    async with shop.lock("k"):
        waiter = asyncio.create_task(locks.lock("k", ttl=3 * TTL).acquire())
        await settle()
        await degrade(locks, faults)
        await asyncio.sleep(TTL)
        assert not waiter.done()  # whom that server let in for so long is still inside
        async with asyncio.timeout(2 * TTL):
            hold = await waiter
        assert hold.degraded
        faults.come_back()
        await settle()
        assert [row.owner async for row in shop.inspect()] == ["looker"]
        await hold.release()


async def both_inside_by_a_late_answer(locks: LockClient, faults: Faults) -> bool:
    """Let a writer's join be answered when a degraded reader is inside; return whether the writer was too."""
    faults.fall_silent()
    writer = asyncio.create_task(locks.rwlock("r", ttl=4 * TTL).write().acquire())
    async with locks.rwlock("r", ttl=TTL).read() as reader:
        assert reader.degraded
        locks.backend.network = Network()  # before a ping tells
        await asyncio.sleep(TTL)
        both = writer.done()
    hold = await writer
    assert not hold.degraded
    with suppress(LockLostError):
        await hold.release()
    return both


async def test_a_ticket_that_gets_in_beside_a_degraded_hold_is_left(
    locks: LockClient, shop: LockClient, faults: Faults
) -> None:
    """The own server answers a reader's and a writer's joins at different times."""
    assert not await both_inside_by_a_late_answer(locks, faults)
    assert await inside(shop) == []


async def test_a_late_answer_that_is_believed_is_found(
    locks: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(WithFallback, "_is_kept_out", lambda self, ticket: False)
    assert await both_inside_by_a_late_answer(locks, faults)


# --- the way back --------------------------------------------------------------------------------------------


async def test_when_its_own_server_is_back_new_holds_are_of_that(
    locks: LockClient, spare: LockClient, shop: LockClient, faults: Faults, events: list[Event]
) -> None:
    """A degraded hold stays where it is until it is released, and keeps the others here out of its line."""
    await degrade(locks, faults)
    async with locks.lock("k", ttl=TTL) as old:
        waiter = asyncio.create_task(locks.lock("k", ttl=TTL).acquire())
        late = asyncio.create_task(locks.lock("k", ttl=2 * TTL).acquire())
        faults.come_back()
        await asyncio.sleep(BACK)
        assert told(events) == ["degradation.begun", "degradation.ended"]
        async with locks.lock("l") as new:
            assert not new.degraded
            assert await inside(shop) == ["web-1"]
        assert await asyncio.create_task(locks.lock("k", ttl=3 * TTL).try_acquire()) is None
        await asyncio.sleep(2 * TTL)  # it is renewed where it is
        assert not old.lost
        assert await inside(spare) == ["web-1"]
        assert not (waiter.done())
        assert not (late.done())
    for task in (waiter, late):
        hold = await task
        assert not hold.degraded
        await hold.release()
    assert await inside(spare) == await inside(shop) == []
    assert not any(isinstance(event, HoldLost) for event in events)


async def test_an_idle_place_of_the_other_server_keeps_nobody_out(locks: LockClient, faults: Faults) -> None:
    await degrade(locks, faults)
    async with locks.rwlock("m", linger=60, ttl=TTL).read():
        pass
    faults.come_back()
    await asyncio.sleep(BACK)
    async with asyncio.timeout(1), locks.rwlock("m", ttl=TTL).write() as hold:
        assert not hold.degraded


async def test_a_degraded_holder_is_asked_to_let_go_when_the_server_is_back(locks: LockClient, faults: Faults) -> None:
    """As a leader who would go on for ever; until then he is seen, and can be made to go."""
    await degrade(locks, faults)
    async with locks.election("e").leadership() as hold:
        assert not hold.revoked
        faults.come_back()
        await asyncio.sleep(BACK)
        assert hold.revoked
        assert await locks.election("e").leader() == "web-1"


async def test_how_many_segments_there_are_is_agreed_anew(locks: LockClient, shop: LockClient, faults: Faults) -> None:
    await degrade(locks, faults)
    lock = locks.segmented("s", segments=2, ttl=TTL)
    async with lock.any():
        faults.come_back()
        await asyncio.sleep(BACK)
        async with lock.any():
            with pytest.raises(ConfigurationError, match="2 segments"):
                await shop.segmented("s", segments=3).any().acquire()


async def seconds_of_a_busy_key(locks: LockClient, faults: Faults) -> float:
    """Let tasks pass a lock on without a pause; return how long holds were degraded after the server was back."""
    await degrade(locks, faults)
    loop = asyncio.get_running_loop()
    back, last = loop.time(), 0.0

    async def visit() -> None:
        nonlocal last
        while loop.time() < back + 10.0:
            async with locks.lock("k", ttl=TTL) as hold:
                await asyncio.sleep(0.01)
                if hold.degraded:
                    last = loop.time() - back

    faults.come_back()
    await asyncio.gather(*(visit() for _ in range(5)))
    return last


async def test_a_busy_key_comes_back_as_well(locks: LockClient, faults: Faults) -> None:
    """A place of the fallback is not handed on for ever."""
    assert await seconds_of_a_busy_key(locks, faults) < BACK


async def test_a_busy_key_that_never_comes_back_is_found(
    locks: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: who is inside goes on as before."""
    monkeypatch.setattr(WithFallback, "_call_back", lambda self, place: None)
    assert await seconds_of_a_busy_key(locks, faults) > 9.0


async def test_it_degrades_again_while_a_degraded_hold_is_left(
    locks: LockClient, faults: Faults, events: list[Event]
) -> None:
    """Its renewals are heard of from the fallback, which says nothing of the own server."""
    await degrade(locks, faults)
    async with locks.lock("k", ttl=TTL):
        faults.come_back()
        await asyncio.sleep(BACK)
        faults.go_down()
        async with locks.lock("l", ttl=TTL) as hold:
            assert hold.degraded
    assert told(events) == ["degradation.begun", "degradation.ended", "degradation.begun"]


async def test_a_client_that_is_closed_leaves_the_fallback(
    degradable: Callable[..., LockClient], spare: LockClient
) -> None:
    client = degradable()
    await client.start()
    await degrade(client, Faults(client))
    hold = await client.lock("k", ttl=TTL).acquire()
    assert len(await inside(spare)) == 1
    await client.aclose()
    assert hold.lost
    assert await inside(spare) == []


class Closing(MemoryBackend):
    """Counts how often it was closed; opens when told to, or raises."""

    def __init__(self, name: str, opens: asyncio.Future[None] | None = None) -> None:
        super().__init__(server=MemoryServer(clock=LoopClock()))
        self.address = f"memory://{name}"
        self.opens = opens
        self.closed = 0

    async def open(self, on_call: OnCall) -> None:
        if self.opens is not None:
            await self.opens
        await super().open(on_call)

    async def aclose(self) -> None:
        self.closed += 1
        await super().aclose()


async def closed_after_a_failed_start(*, is_cancelled: bool) -> tuple[int, int]:
    """Start a client whose fallback cannot be opened, or is waited for in vain; return how often each was closed."""
    opens = asyncio.get_running_loop().create_future()
    own, spare = Closing("main"), Closing("spare", opens)
    starting = asyncio.create_task(LockClient(own, fallback=spare, clock=LoopClock()).start())
    await settle()
    if is_cancelled:
        starting.cancel()
    else:
        opens.set_exception(BackendUnavailableError("spare: refused"))
    with pytest.raises(asyncio.CancelledError if is_cancelled else BackendUnavailableError):
        await starting
    return own.closed, spare.closed


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_start_that_fails_closes_both(is_cancelled: bool) -> None:
    """Nothing stays open behind a fallback that is not there."""
    assert await closed_after_a_failed_start(is_cancelled=is_cancelled) == (1, 1)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_who_closes_only_the_fallback_is_found(is_cancelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(WithFallback, "aclose", lambda self: self._fallback.aclose())
    assert await closed_after_a_failed_start(is_cancelled=is_cancelled) == (0, 1)


# --- what it cannot do ---------------------------------------------------------------------------------------


def test_a_server_is_not_its_own_fallback() -> None:
    with pytest.raises(ConfigurationError, match="memory://shop cannot be its own fallback"):
        aiodlock.connect("memory://shop", fallback="memory://shop")


def test_what_one_of_the_two_cannot_do_is_refused() -> None:
    """At once, not when it is needed."""
    locks = aiodlock.connect("memory://shop", fallback="redlock://h1,h2,h3")
    with pytest.raises(UnsupportedError, match="with the fallback redlock://h1"):
        locks.semaphore("s", permits=2)
    with pytest.raises(UnsupportedError, match="fair"):
        locks.lock("k", fair=True)


async def test_a_latch_is_not_lent(locks: LockClient, faults: Faults) -> None:
    """What was counted is on the own server."""
    await degrade(locks, faults)
    with pytest.raises(BackendUnavailableError):
        await locks.latch("l", count=2, ttl=1.0).count_down()


# --- broken twins --------------------------------------------------------------------------------------------

TWINS: dict[str, tuple[Break, Callable[..., object]]] = {
    "an answered ping says nothing": (
        set_to(WithFallback, "_pinged", lambda self, answer: None),
        test_a_server_that_answers_others_is_not_degraded,
    ),
    "tickets that wait are forgotten": (
        set_to(WithFallback, "is_misplaced", lambda self, place: False),
        test_whoever_stands_in_line_there_takes_another_ticket,
    ),
    "it never goes back": (
        set_to(WithFallback, "_pinged", lambda self, answer: None),
        test_when_its_own_server_is_back_new_holds_are_of_that,
    ),
    "all is asked of the fallback": (
        set_to(WithFallback, "_of", lambda self, id_: self._fallback),
        test_when_its_own_server_is_back_new_holds_are_of_that,
    ),
}


@pytest.mark.parametrize(("twin", "test"), TWINS.values(), ids=TWINS.keys())
async def test_a_twin_is_caught(
    locks: LockClient,
    shop: LockClient,
    spare: LockClient,
    faults: Faults,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
    twin: Break,
    test: Callable[..., object],
) -> None:
    twin(monkeypatch)
    stage: dict[str, object] = {"locks": locks, "shop": shop, "spare": spare, "faults": faults, "events": events}
    stage["monkeypatch"] = monkeypatch
    async with asyncio.timeout(1_000):
        await fails(test, stage)
