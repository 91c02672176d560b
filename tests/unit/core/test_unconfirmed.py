"""A backend whose grants count only when others have them: what is not confirmed is left, calls mean look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace

import pytest

from aiodlock import AcquireTimeoutError, BackendError, BackendUnavailableError, LockClient
from aiodlock._core.cohort import Cohort
from aiodlock._core.line import Answer, Gone, GoneWhy, Ticket, TicketId
from aiodlock._core.place import Place
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import LoopClock


class Replicated(MemoryBackend):
    """Does what it is asked, and confirms it only while its replicas are there."""

    capabilities = replace(MemoryBackend.capabilities, trusts_calls=False)

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server=server)
        self.has_replicas = True
        self.joins = 0

    async def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Answer:
        self.joins += 1
        answer = await super().join(ticket, queue=queue, instead_of=instead_of)
        return answer if self.has_replicas else Gone(GoneWhy.UNCONFIRMED)

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        return self._renew(super().renew(tickets))

    async def _renew(self, verb: Awaitable[Sequence[Answer | None]]) -> Sequence[Answer | None]:
        answers = await verb
        return answers if self.has_replicas else [None] * len(answers)


class TwiceAsked(MemoryBackend):
    """Confirms the first join late; its second one, sent meanwhile, later still and not."""

    def __init__(self, server: MemoryServer, second: Gone | BackendError) -> None:
        super().__init__(server=server)
        self.second = second
        self.joins = 0

    async def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Answer:
        self.joins += 1
        is_first = self.joins == 1
        answer = await super().join(ticket, queue=queue, instead_of=instead_of)
        await asyncio.sleep(1.8 if is_first else 0.6)
        if is_first:
            return answer
        if isinstance(self.second, BackendError):
            raise self.second
        return self.second


@pytest.fixture
async def backend() -> Replicated:
    return Replicated(MemoryServer(clock=LoopClock()))


@pytest.fixture
async def replicated(backend: Replicated) -> LockClient:
    return LockClient(backend, name="web-3", clock=LoopClock())


async def test_an_unconfirmed_ticket_leaves_and_another_stands(replicated: LockClient, backend: Replicated) -> None:
    """Each has an id of its own; none stays behind; the first that is confirmed is inside."""
    async with replicated:
        backend.has_replicas = False
        waiter = asyncio.create_task(replicated.lock("k").acquire())
        await asyncio.sleep(5)
        assert backend.joins > 3
        assert not waiter.done()
        assert backend.server.inspect("*", "*") == []
        backend.has_replicas = True
        hold = await waiter
        assert [row.inside for row in backend.server.inspect("*", "*")] == [True]
        await hold.release()
    assert backend.server.inspect("*", "*") == []


async def test_it_pauses_longer_and_longer(replicated: LockClient, backend: Replicated) -> None:
    """A server without replicas is not asked in a hot loop."""
    async with replicated:
        backend.has_replicas = False
        with pytest.raises(AcquireTimeoutError):
            await replicated.lock("k", ttl=30).acquire(20)
        assert backend.joins < 60


async def test_without_confirmation_for_a_ttl_it_is_an_error(replicated: LockClient, backend: Replicated) -> None:
    """As with a server that says nothing; for a try too."""
    async with replicated:
        backend.has_replicas = False
        lock = replicated.lock("k", ttl=3)
        for call in (lock.acquire, lock.try_acquire):
            began = asyncio.get_running_loop().time()
            with pytest.raises(BackendUnavailableError, match="'k'"):
                await call()
            assert 2 < asyncio.get_running_loop().time() - began < 5
        assert backend.server.inspect("*", "*") == []


async def called_without_replicas(replicated: LockClient, backend: Replicated) -> bool:
    """Call a waiter while the replicas are away; tell whether it entered before they were back."""
    async with LockClient(MemoryBackend(server=backend.server), clock=LoopClock()) as other, replicated:
        hold = await other.lock("k", ttl=30).acquire()
        waiter = asyncio.create_task(replicated.lock("k", ttl=30).acquire())
        await asyncio.sleep(1)
        backend.has_replicas = False
        await hold.release()
        await asyncio.sleep(1)
        entered = waiter.done()
        backend.has_replicas = True
        await (await waiter).release()
    return entered


async def test_a_call_means_look(replicated: LockClient, backend: Replicated) -> None:
    """Nobody is inside by a call alone."""
    assert not await called_without_replicas(replicated, backend)


async def test_a_backend_that_trusts_its_calls_would_be_seen(replicated: LockClient, backend: Replicated) -> None:
    """The broken twin."""
    backend.capabilities = replace(backend.capabilities, trusts_calls=True)
    assert await called_without_replicas(replicated, backend)


async def test_a_ticket_that_is_not_left_would_be_seen(
    replicated: LockClient, backend: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: the unconfirmed ones stay, inside, and keep everybody out."""

    def forget(self: Cohort, place: Place) -> None:
        self.standing.pop(place)
        place.end()

    monkeypatch.setattr(Cohort, "unconfirmed", forget)
    async with replicated:
        backend.has_replicas = False
        waiter = asyncio.create_task(replicated.lock("k", ttl=30).acquire(0.001))
        await asyncio.wait({waiter})
        assert isinstance(waiter.exception(), AcquireTimeoutError)
        assert backend.server.inspect("*", "*") != []


SECOND_ANSWERS = (Gone(GoneWhy.UNCONFIRMED), BackendError("not allowed"))


async def held_and_on_the_server(second: Gone | BackendError) -> tuple[bool, int]:
    """Acquire with a join that is sent twice; return whether the hold is believed in, and how many are inside."""
    backend = TwiceAsked(MemoryServer(clock=LoopClock()), second)
    async with LockClient(backend, clock=LoopClock()) as locks, locks.lock("k", ttl=30, on_lost="flag") as hold:
        await asyncio.sleep(3)
        assert backend.joins == 2
        return not hold.lost, len(backend.server.inspect("*", "*"))


@pytest.mark.parametrize("second", SECOND_ANSWERS, ids=repr)
async def test_a_ticket_that_was_confirmed_is_not_left_for_a_later_doubt(second: Gone | BackendError) -> None:
    """Somebody holds it, and would share it with the next one."""
    assert await held_and_on_the_server(second) == (True, 1)


async def test_a_held_ticket_that_is_left_for_a_later_doubt_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(Place, "answered", False)
    assert await held_and_on_the_server(SECOND_ANSWERS[0]) == (True, 0)


async def test_a_held_ticket_that_is_left_for_a_later_refusal_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    joined = Place._joined

    def hear(self: Place, answer: Answer | BackendError) -> None:
        if isinstance(answer, BackendError):
            self._failed_to_join(answer)
        else:
            joined(self, answer)

    monkeypatch.setattr(Place, "_joined", hear)
    assert await held_and_on_the_server(SECOND_ANSWERS[1]) == (True, 0)
