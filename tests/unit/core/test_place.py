"""What the client believes of one ticket when answers and calls are lost, late, doubled, or overtake each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from aiodlock import BackendUnavailableError, LockClient, LockLostError
from aiodlock._core import place
from aiodlock._core.cohort import Cohort
from aiodlock._core.fence import split
from aiodlock._core.line import Answer, Called, Gone, Inside, LineId, Ticket, TicketId, Waiting
from aiodlock.backends.memory import MemoryBackend, MemoryServer, Network
from aiodlock.testing import Faults, settle
from tests.acceptance import acceptance
from tests.unit.core.body import Body


class Slow(Network):
    """Does what is asked at once, and answers late."""

    delay = 0.0

    async def _answer(self, value: Any) -> Any:
        await asyncio.sleep(self.delay)
        return value

    def carry(self, verb: str, act: Callable[[], Any]) -> Awaitable[Any]:
        return self._answer(act())


async def rows(client: LockClient) -> list[tuple[str, bool]]:
    return [(row.owner, row.inside) async for row in client.inspect()]


def now() -> float:
    return asyncio.get_running_loop().time()


# --- validity ----------------------------------------------------------------------------------------------


async def test_validity_counts_from_before_the_send(locks: LockClient) -> None:
    """An answer that took long is worth less: the server's clock ran meanwhile."""
    locks.backend.network = slow = Slow()
    slow.delay = 8.0
    async with locks.lock("k", ttl=30) as hold:
        assert hold.remaining == pytest.approx(30 - 8 - 0.302)
        await asyncio.sleep(10.5 + 8)  # a renewal was asked for and answered meanwhile
        assert hold.remaining <= 30 - 8


async def test_validity_counted_from_the_answer_would_be_seen(
    locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(place, "deadline_of", lambda _, remaining: now() + remaining - 0.302)
    with pytest.raises(AssertionError):
        await test_validity_counts_from_before_the_send(locks)


async def test_an_outage_is_no_part_of_a_grant(locks: LockClient, faults: Faults) -> None:
    """Otherwise the batches after it would be as long as they may be, and others wait for them."""
    shortest = locks._at_work().batch
    faults.go_down()
    task = asyncio.create_task(locks.lock("k", ttl=30).acquire())
    await asyncio.sleep(3)
    faults.come_back()
    await (await task).release()
    assert locks._at_work().batch == shortest


async def test_an_answer_older_than_its_lease_is_not_believed(locks: LockClient, faults: Faults) -> None:
    """It is looked again; the hold is given out only with time left."""
    faults.fall_silent()
    task = asyncio.create_task(locks.lock("k", ttl=6).acquire())
    await settle()
    (asked,) = locks._at_work().places.values()
    asked.joined_at = now() - 5.95
    asked._joined(Inside(1, 6.0))
    await settle()
    assert not task.done()
    assert faults.sent == ["join", "renew"]
    faults.come_back()
    hold = await task
    assert hold.remaining > 3
    await hold.release()


async def test_a_called_ticket_with_little_left_is_renewed_before_it_is_handed_out(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """Its deadline counts from the last request that was answered, not from the call."""
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k", ttl=30).acquire())
    await settle()
    faults.go_down()
    await asyncio.sleep(3)  # of a waiting life of five seconds
    await hold.release()
    await asyncio.sleep(0.5)
    assert await rows(other) == [("web-1", True)]
    assert not waiter.done()
    faults.come_back()
    await settle()
    mine = await waiter
    assert mine.remaining > 29
    await mine.release()


async def test_a_turn_is_not_wasted_by_a_slow_renewal(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """The batch begins when the place is handed out, not when it was called; others wait behind it."""
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k", ttl=30).acquire())
    await settle()
    behind = asyncio.create_task(other.lock("k", fair=True).acquire())
    await settle()
    faults.go_down()
    await asyncio.sleep(3)
    locks.backend.network = slow = Slow()
    slow.delay = 0.05  # longer than a batch
    await hold.release()
    await asyncio.sleep(0.2)
    assert waiter.done()
    assert not behind.done()
    await (await waiter).release()
    await (await behind).release()


async def test_a_called_ticket_is_renewed_to_its_full_ttl(locks: LockClient, other: LockClient) -> None:
    """It begins with what is left of its short waiting life."""
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k", ttl=30).acquire())
    await settle()
    await hold.release()
    async with await waiter as mine:
        assert 4 < mine.remaining < 5
        await asyncio.sleep(2)
        assert mine.remaining > 29


@pytest.mark.parametrize("ttl", [3, 5, 30])  # a waiting life of 5 s is as long as some of them
async def test_a_called_fixed_lease_is_renewed_once_at_once(
    locks: LockClient, other: LockClient, faults: Faults, ttl: float
) -> None:
    """To have the ttl that was asked for, and no more."""
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k", ttl=ttl, renew=False).acquire())
    await asyncio.sleep(0.9)
    faults.sent.clear()
    await hold.release()
    mine = await waiter
    await settle()
    assert 0.98 * ttl < mine.remaining < ttl
    await asyncio.sleep(ttl + 1)
    assert mine.lost
    assert faults.sent == ["renew"]


# --- calls -------------------------------------------------------------------------------------------------


@acceptance(26)
async def test_with_all_calls_dropped_there_is_progress(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """A waiter looks: at the end of the holder's lease, and at a third of its own waiting life."""
    faults.calls = "drop"
    for _ in range(3):
        hold = await other.lock("k").acquire()
        waiter = asyncio.create_task(locks.lock("k").acquire())
        await settle()
        began = now()
        await hold.release()
        await (await waiter).release()
        assert now() - began <= 5 / 3 + 0.01


async def test_doubled_calls_change_nothing(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """One ticket is one ownership, however often it is called."""
    faults.calls = "double"
    hold = await other.lock("k").acquire()
    waiters = [asyncio.create_task(locks.lock("k").acquire()) for _ in range(2)]
    await settle()
    await hold.release()
    await settle()
    assert [waiter.done() for waiter in waiters] == [True, False]
    await (await waiters[0]).release()
    await (await waiters[1]).release()
    await settle()
    assert await rows(other) == []


async def test_a_call_for_nobody_is_answered_by_leaving(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """Its waiter gave up while it was on its way; the next one in line does not wait for a life to end."""
    faults.calls = "hold"
    faults.drop_request("leave", times=1)
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k").acquire())
    await settle()
    await hold.release()
    waiter.cancel()
    await asyncio.sleep(0)
    faults.go_down()
    await asyncio.sleep(0.001)
    assert await rows(other) == [("web-1", True)]
    faults.come_back()
    faults.calls = "deliver"
    faults.release_calls()
    await settle()
    assert await rows(other) == []


async def test_a_call_of_an_old_connection_means_look(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """It may be about a time that the last answer already knows better: it is not believed as it is."""
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k").acquire())
    await settle()
    (mine,) = [row.id async for row in locks.inspect() if not row.inside]
    faults.come_back()  # a new connection: what the old one carried is void
    await settle()
    engine = locks._at_work()
    faults.sent.clear()
    engine.on_call(Called(LineId("lock", "k"), mine, hold.fence >> 15 | 1 << 47, via=0))
    await settle()
    assert not waiter.done()
    assert faults.sent == ["renew"]
    await hold.release()
    await (await waiter).release()


async def test_a_call_not_above_the_last_epoch_means_look(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """A late call of an earlier time, over the right connection."""
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k").acquire())
    await settle()
    (mine,) = [row.id async for row in locks.inspect() if not row.inside]
    faults.sent.clear()
    locks._at_work().on_call(Called(LineId("lock", "k"), mine, hold.fence >> 15, via=0))
    await settle()
    assert not waiter.done()
    assert faults.sent == ["renew"]
    await hold.release()
    await (await waiter).release()


async def test_a_call_before_the_answer_of_its_own_join_means_look(locks: LockClient, other: LockClient) -> None:
    """Seen on Redis: the push overtakes the reply. Nothing is believed before the first answer."""
    locks.backend.network = slow = Slow()
    slow.delay = 1.0
    hold = await other.lock("k").acquire()
    waiter = asyncio.create_task(locks.lock("k").acquire())
    await settle()
    await hold.release()
    await asyncio.sleep(0.5)
    assert not waiter.done()
    mine = await waiter
    assert await rows(other) == [("web-1", True)]
    await mine.release()


# --- answers -----------------------------------------------------------------------------------------------


async def test_a_join_that_arrives_after_its_leave_leaves_no_orphan(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """The leave buried its id."""
    async with other.lock("k"):
        late = faults.hold_back("join")
        task = asyncio.create_task(locks.lock("k").acquire())
        await settle()
        assert late.is_caught
        task.cancel()
        await settle()
        late.deliver()
        assert await rows(other) == [("web-2", True)]
    assert await rows(other) == []


async def test_without_burying_the_orphan_would_be_seen(
    locks: LockClient, other: LockClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    leave = MemoryServer.leave
    monkeypatch.setattr(
        MemoryServer, "leave", lambda self, ticket, client, *, bury: leave(self, ticket, client, bury=False)
    )
    with pytest.raises(AssertionError):
        await test_a_join_that_arrives_after_its_leave_leaves_no_orphan(locks, other, faults)


async def test_a_join_in_doubt_is_sent_again_with_the_same_ticket(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """Whether its request or its answer was lost."""
    for lose in (faults.drop_request, faults.drop_reply):
        lose("join", times=3)
        async with locks.lock("k") as hold:
            assert await rows(other) == [("web-1", True)]
            hold.check()
        assert await rows(other) == []


async def test_what_had_no_answer_in_an_outage_is_sent_again_when_it_ends(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """Not when a pause is over that had grown meanwhile, up to a sixth of the ttl."""
    hold = await locks.lock("left", ttl=60).acquire()
    waiting = asyncio.create_task(other.lock("left", ttl=60).acquire())
    faults.go_down()
    joining = asyncio.create_task(locks.lock("joined", ttl=60).acquire())
    hold.release_nowait()
    await asyncio.sleep(14)
    faults.come_back()
    await settle()
    assert (waiting.done(), joining.done()) == (True, True)
    await waiting.result().release()
    await joining.result().release()


async def test_a_batch_ended_in_doubt_is_repeated_whole(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """Leave-and-stand did not arrive: the next one is in before the old ticket's life is over."""
    began = now()
    await _end_batch(locks, other, partial(faults.drop_request, "join"))
    assert now() - began < 1


async def test_a_batch_whose_end_has_no_answer_is_over(locks: LockClient, other: LockClient, faults: Faults) -> None:
    """Leave-and-stand lost its answer: the old ticket is handed to nobody, and nothing is left of either."""
    await _end_batch(locks, other, partial(faults.drop_reply, "join"))


async def _end_batch(locks: LockClient, other: LockClient, lose: Callable[[], None]) -> None:
    """Enter in company, and *lose* what ends the batch."""

    async def enter(client: LockClient) -> None:
        async with client.lock("k") as hold:
            order.append((client.name, hold.fence))
            await asyncio.sleep(0.1)

    order: list[tuple[str, int]] = []
    tasks = [asyncio.create_task(enter(locks)) for _ in range(3)]
    await settle()
    tasks.append(asyncio.create_task(enter(other)))
    await settle()
    lose()
    await asyncio.gather(*tasks)
    assert [name for name, _ in order] == ["web-1", "web-2", "web-1", "web-1"]
    assert [fence for _, fence in order] == sorted({fence for _, fence in order})
    await settle()
    assert await rows(other) == []


class Forgetful(MemoryBackend):
    """Answers renewals as it is told."""

    answers: Sequence[Answer | None] | None = None

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        if self.answers is None:
            return super().renew(tickets)
        answers = self.answers
        return self.network.carry("renew", lambda: answers)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Gone(), "refused by the server: its life ended on the server"),
        (Waiting(1, 1.0, 1), "the server forgot it"),
    ],
)
async def test_a_renewal_that_says_less_than_we_know_loses_the_hold(
    locks: LockClient, body: Body, monkeypatch: pytest.MonkeyPatch, answer: Answer, reason: str
) -> None:
    """Loss is final, and it is not silently taken again."""
    monkeypatch.setattr(type(locks.backend), "renew", Forgetful.renew)
    monkeypatch.setattr(type(locks.backend), "answers", None, raising=False)
    with pytest.raises(LockLostError, match=reason):
        async with locks.lock("k", ttl=30):
            locks.backend.answers = [answer]
            await body.stay()


async def test_a_renewal_without_an_answer_moves_no_deadline(locks: LockClient, faults: Faults, body: Body) -> None:
    """It is repeated, ever less often, until the lease ends; then the hold is lost."""
    began = now()
    with pytest.raises(LockLostError, match="its lease ended before a renewal was confirmed"):
        async with locks.lock("k", ttl=30):
            faults.go_down()
            await body.stay()
    assert now() - began == pytest.approx(30 - 0.302)
    assert 5 <= faults.sent.count("renew") <= 25


async def test_a_late_answer_shortens_nothing(locks: LockClient) -> None:
    """Two renewals answered in the wrong order: the later one counts."""
    async with locks.lock("k", ttl=30) as hold:
        held = hold._place
        before = hold.remaining
        held.renewed(now() - 20, True, Inside(split(held.fence)[0], 30.0))
        assert hold.remaining == before


async def test_an_unknown_ticket_of_ours_is_left(locks: LockClient, other: LockClient) -> None:
    """A call for an id that this client does not know: the place is given back."""
    await locks.backend.join(Ticket.of(LineId("lock", "k"), TicketId("forgotten"), owner="web-1"))
    await locks.backend.join(Ticket.of(LineId("lock", "k"), TicketId("forgotten too"), owner="web-1"))
    await locks.backend.leave(Ticket.of(LineId("lock", "k"), TicketId("forgotten")))
    await settle()
    assert await rows(other) == []


async def test_silence_of_a_waiting_ticket_is_an_error_for_all_who_wait(
    locks: LockClient, other: LockClient, faults: Faults
) -> None:
    """Each gets an error of its own."""
    async with other.lock("k"):
        waiters = [asyncio.create_task(locks.lock("k", ttl=6).acquire()) for _ in range(3)]
        await asyncio.sleep(20)
        faults.go_down()
        await asyncio.wait(waiters, timeout=9)
        errors = [waiter.exception() for waiter in waiters]
        assert [type(error) for error in errors] == [BackendUnavailableError] * 3
        assert len({id(error) for error in errors}) == 3
        faults.come_back()


async def epochs_asked_and_had(locks: LockClient, other: LockClient) -> tuple[int, int]:
    """Return the epoch of a ticket that was asked to go before it knew that it is inside, and of what its task got."""
    locks.backend.network = slow = Slow()
    slow.delay = 1.0
    lock = locks.lock("k", ttl=30)
    task = asyncio.create_task(lock.acquire())
    await settle()
    (asked,) = [row async for row in other.inspect()]
    assert asked.epoch is not None
    assert await other.lock("k").revoke("maintenance") == 1
    async with await task as hold:
        return asked.epoch, split(hold.fence)[0]


async def test_who_is_asked_to_go_before_the_answer_to_its_join_stands_again(
    locks: LockClient, other: LockClient
) -> None:
    asked, had = await epochs_asked_and_had(locks, other)
    assert had > asked


async def test_the_twin_that_forgets_what_it_heard_too_early_is_caught(
    locks: LockClient, other: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_to_go = Cohort.asked_to_go

    def forget(self: Cohort, of: place.Place, reason: str) -> None:
        if of.state is place.INSIDE:
            asked_to_go(self, of, reason)

    monkeypatch.setattr(Cohort, "asked_to_go", forget)
    asked, had = await epochs_asked_and_had(locks, other)
    assert had == asked
