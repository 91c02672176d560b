"""The verbs: what a backend does for the engine, one by one. Start here with a backend of your own."""

from __future__ import annotations

from dataclasses import replace

from aiodlock._core.line import (
    AskedToGo,
    Call,
    Called,
    CompanyCame,
    Gone,
    GoneWhy,
    Inside,
    LineId,
    Opened,
    Ticket,
    TicketGone,
    TicketId,
    Waiting,
    Wish,
)
from aiodlock.testing.conformance.check import check
from aiodlock.testing.conformance.world import World

__all__ = [
    "a_buried_ticket_never_stands",
    "a_called_ticket_has_a_short_life_until_it_is_renewed",
    "a_latch_counts_each_operation_once",
    "a_life_ends_by_the_servers_clock",
    "a_smaller_weight_lets_others_in",
    "a_ticket_that_others_made_leave_is_told",
    "an_expired_ticket_never_stands_again",
    "another_size_lets_others_in_or_refuses_them",
    "epochs_grow_also_when_the_line_was_empty",
    "joining_again_is_looking",
    "leaving_is_always_possible",
    "leaving_lets_the_next_one_in_and_calls_it",
    "one_ticket_can_stand_instead_of_another",
    "patterns_are_shell_style",
    "renewing_keeps_and_never_creates_or_shortens",
    "standing_again_in_vain_leaves_nothing",
    "the_first_one_sets_the_size",
    "the_front_fits_the_size_and_nobody_overtakes",
    "the_next_one_waits",
    "those_inside_can_be_asked_to_go",
    "who_does_not_queue_is_inside_or_gone",
    "who_is_inside_hears_of_company",
]


def _tickets(world: World, *weights: int, kind: str = "lock", size: int = 1, ttl: float | None = None) -> list[Ticket]:
    line = LineId(kind, world.key())
    life = 10 * world.ttl if ttl is None else ttl
    return [
        Ticket(Wish(line, weight, size, life, f"owner-{n}"), TicketId(f"{world.key()}-{world.number()}"))
        for n, weight in enumerate(weights or (1,))
    ]


async def _heard(world: World, calls: list[Call], call: Call) -> None:
    """Wait for a call; the connection it came over is not compared."""
    if world.capabilities.pushes:
        await world.until(lambda: any(replace(heard, via=0) == call for heard in calls))


@check(13)
async def joining_again_is_looking(world: World) -> None:
    """The same id finds its own ticket: one stand, one epoch, one place."""
    backend, _ = await world.backend()
    (mine,) = _tickets(world)
    first, second = await backend.join(mine), await backend.join(mine)
    assert isinstance(first, Inside)
    assert isinstance(second, Inside)
    assert first.epoch == second.epoch
    assert 9 * world.ttl < second.remaining <= first.remaining <= 10 * world.ttl
    assert [(row.id, row.owner, row.inside) for row in await world.rows()] == [(mine.id, "owner-0", True)]
    await backend.leave(mine)


@check()
async def the_next_one_waits(world: World) -> None:
    """It hears who is inside, how many stand before it, the line's last epoch, and when to look again."""
    backend, _ = await world.backend()
    holder, first, second = _tickets(world, 1, 1, 1)
    inside = await backend.join(holder)
    assert isinstance(inside, Inside)
    for ahead, waiter in enumerate((first, second), start=1):
        for _ in range(2):
            answer = await backend.join(waiter)
            assert isinstance(answer, Waiting)
            assert answer.ahead >= 1
            assert answer.ahead <= ahead
            assert (answer.last, answer.holder) == (inside.epoch, "owner-0")
            assert 0 < answer.look_again <= 10 * world.ttl
    for ticket in (holder, first, second):
        await backend.leave(ticket)


@check()
async def leaving_lets_the_next_one_in_and_calls_it(world: World) -> None:
    """In the same step: when leave has returned, a look finds it inside, with a larger epoch."""
    backend, _ = await world.backend()
    other, calls = await world.backend()
    holder, waiter = _tickets(world, 1, 1)
    await backend.join(holder)
    answer = await other.join(waiter)
    assert isinstance(answer, Waiting)
    await backend.leave(holder)
    inside = await other.join(waiter)
    assert isinstance(inside, Inside)
    assert inside.epoch > answer.last
    await _heard(world, calls, Called(waiter.line, waiter.id, inside.epoch))
    await other.leave(waiter)


@check(14)
async def leaving_is_always_possible(world: World) -> None:
    """From inside, from the queue, unknown, and again; it touches nobody else's ticket."""
    backend, calls = await world.backend()
    holder, waiter, unknown = _tickets(world, 1, 1, 1)
    await backend.join(holder)
    await backend.join(waiter)
    for _ in range(2):
        await backend.leave(unknown)
        await backend.leave(waiter)
    assert [row.id for row in await world.rows()] == [holder.id]
    for _ in range(2):
        await backend.leave(holder)
    assert await world.rows() == []
    assert not [call for call in calls if isinstance(call, TicketGone)]


@check()
async def a_buried_ticket_never_stands(world: World) -> None:
    """A join that arrives after its leave is refused; without burying it would stand."""
    backend, _ = await world.backend()
    late, other = _tickets(world, 1, 1)
    await backend.leave(late, bury=True)
    answer = await backend.join(late)
    assert isinstance(answer, Gone)
    assert answer.why is GoneWhy.BURIED
    assert await world.rows() == []
    await backend.leave(other)
    assert isinstance(await backend.join(other), Inside)
    await backend.leave(other, bury=True)
    again = await backend.join(other)
    assert isinstance(again, Gone)


@check(5)
async def who_does_not_queue_is_inside_or_gone(world: World) -> None:
    """Busy is told with the holder's name, and nothing stays in line."""
    backend, _ = await world.backend()
    holder, guest = _tickets(world, 1, 1)
    assert isinstance(await backend.join(holder, queue=False), Inside)
    busy = await backend.join(guest, queue=False)
    assert isinstance(busy, Gone)
    assert (busy.why, busy.holder) == (GoneWhy.BUSY, "owner-0")
    assert [row.id for row in await world.rows()] == [holder.id]
    await backend.leave(holder)


@check()
async def one_ticket_can_stand_instead_of_another(world: World) -> None:
    """The old one leaves, the next enters, the new one stands behind it: one step, and the same when re-sent."""
    backend, _ = await world.backend()
    other, calls = await world.backend()
    old, waiter, new = _tickets(world, 1, 1, 1)
    await backend.join(old)
    await other.join(waiter)
    first, again = [await backend.join(new, instead_of=old.id) for _ in range(2)]
    assert isinstance(first, Waiting)
    assert isinstance(again, Waiting)
    assert first.holder == again.holder == "owner-1"
    assert {row.id: row.inside for row in await world.rows()} == {waiter.id: True, new.id: False}
    await _heard(world, calls, Called(waiter.line, waiter.id, first.last, company=True))
    await other.leave(waiter)
    await backend.leave(new)


@check()
async def standing_again_in_vain_leaves_nothing(world: World) -> None:
    """A ticket that never stands, being too heavy or buried, takes the one with it that it was to stand for."""
    backend, _ = await world.backend()
    other, _ = await world.backend()
    old, heavy, light = _tickets(world, 3, 3, 2, kind="semaphore", size=4)
    await backend.join(old)
    await other.join(light)
    await other.change_size(old.line, 2)
    answer = await backend.join(heavy, instead_of=old.id)
    assert isinstance(answer, Gone)
    assert answer.why is GoneWhy.TOO_HEAVY
    assert [(row.id, row.inside) for row in await world.rows()] == [(light.id, True)]
    (buried,) = _tickets(world)
    await other.leave(buried.wishing(line=light.line), bury=True)
    assert isinstance(await other.join(buried.wishing(line=light.line), instead_of=light.id), Gone)
    assert await world.rows() == []


@check(18)
async def renewing_keeps_and_never_creates_or_shortens(world: World) -> None:
    """Many tickets in one call, answered in order: what each of them would hear from a look."""
    backend, _ = await world.backend()
    holder, waiter, unknown = _tickets(world, 1, 1, 1)
    await backend.join(holder)
    await backend.join(waiter)
    inside, waiting, gone = await backend.renew([holder, waiter, unknown])
    assert isinstance(inside, Inside)
    assert isinstance(waiting, Waiting)
    assert isinstance(gone, Gone)
    assert gone.why is GoneWhy.EXPIRED
    await backend.renew([holder.wishing(ttl=world.ttl)])
    rows = {row.id: row.remaining for row in await world.rows()}
    assert set(rows) == {holder.id, waiter.id}
    assert rows[holder.id] > 9 * world.ttl
    await backend.leave(holder)
    await backend.leave(waiter)


@check(6)
async def a_life_ends_by_the_servers_clock(world: World) -> None:
    """An expired ticket is gone to its own join and renew, and whoever waits behind it is inside at the next look."""
    backend, _ = await world.backend()
    (dead,) = _tickets(world, ttl=world.ttl)
    (waiter,) = _tickets(world)
    first = await backend.join(dead)
    await backend.join(waiter)
    await world.sleep(world.ttl + 0.05)
    (renewed,) = await backend.renew([dead])
    assert isinstance(first, Inside)
    for answer in (renewed, await backend.join(dead)):
        assert isinstance(answer, Gone)
        assert answer.why is GoneWhy.EXPIRED
    inside = await backend.join(waiter)
    assert isinstance(inside, Inside)
    assert inside.epoch > first.epoch
    await backend.leave(waiter)


@check()
async def an_expired_ticket_never_stands_again(world: World) -> None:
    """Also when others have swept it and the line is empty: a join sent again after its end must not enter anew."""
    backend, _ = await world.backend()
    holder, waiter = _tickets(world, 1, 1, ttl=world.ttl)
    (other,) = _tickets(world)
    await backend.join(holder)
    await backend.join(waiter)
    await world.sleep(world.ttl + 0.05)
    assert isinstance(await backend.join(other), Inside)
    await backend.leave(other)
    for dead in (holder, waiter):
        for queue in (True, False):
            answer = await backend.join(dead, queue=queue)
            assert isinstance(answer, Gone)
            assert answer.why is GoneWhy.EXPIRED
    assert await world.rows() == []


@check(31)
async def a_called_ticket_has_a_short_life_until_it_is_renewed(world: World) -> None:
    """What was left of its waiting life; a renewal gives it the full ttl, with the same epoch."""
    backend, _ = await world.backend()
    holder, waiter = _tickets(world, 1, 1, ttl=20.0)
    await backend.join(holder)
    await backend.join(waiter)
    await backend.leave(holder)
    called = await backend.join(waiter)
    (renewed,) = await backend.renew([waiter])
    assert isinstance(called, Inside)
    assert isinstance(renewed, Inside)
    assert 4.0 < called.remaining <= 5.0
    assert 19.0 < renewed.remaining <= 20.0
    assert renewed.epoch == called.epoch
    await backend.leave(waiter)


@check()
async def the_front_fits_the_size_and_nobody_overtakes(world: World) -> None:
    """Weights are added up from the front; a light ticket does not slip past a heavy one."""
    backend, _ = await world.backend()
    line = _tickets(world, 2, 2, 1, 1, kind="semaphore", size=3)
    answers = [await backend.join(ticket) for ticket in line]
    assert [type(answer) for answer in answers] == [Inside, Waiting, Waiting, Waiting]
    await backend.leave(line[0])
    assert [row.id for row in await world.rows() if row.inside] == [line[1].id, line[2].id]
    for ticket in line:
        await backend.leave(ticket)


@check()
async def the_first_one_sets_the_size(world: World) -> None:
    """A differing join changes nothing and is told the size; one heavier than the line is refused."""
    backend, _ = await world.backend()
    (first,) = _tickets(world, 1, kind="semaphore", size=2)
    second, third, heavy = _tickets(world, 1, 1, 3, kind="semaphore", size=9)
    answers = [await backend.join(ticket) for ticket in (first, second, third, heavy)]
    assert [type(answer) for answer in answers] == [Inside, Inside, Waiting, Gone]
    assert isinstance(answers[1], Inside)
    assert answers[1].size in (0, 2)
    assert isinstance(answers[3], Gone)
    assert answers[3].why is GoneWhy.TOO_HEAVY
    for ticket in (first, second, third):
        await backend.leave(ticket)


@check()
async def who_is_inside_hears_of_company(world: World) -> None:
    """By a call when the first waiter comes, and by every look."""
    backend, calls = await world.backend()
    other, _ = await world.backend()
    holder, waiter = _tickets(world, 1, 1)
    alone = await backend.join(holder)
    await other.join(waiter)
    await _heard(world, calls, CompanyCame(holder.id))
    (told,) = await backend.renew([holder])
    await other.leave(waiter)
    (again,) = await backend.renew([holder])
    companies = [answer.company for answer in (alone, told, again) if isinstance(answer, Inside)]
    assert companies == [False, True, False]
    await backend.leave(holder)


@check(12)
async def a_ticket_that_others_made_leave_is_told(world: World) -> None:
    """Its client is called; the leaver's own client is not."""
    backend, calls = await world.backend()
    other, others_calls = await world.backend()
    (holder,) = _tickets(world)
    await backend.join(holder)
    await other.leave(Ticket.of(holder.line, holder.id))
    await _heard(world, calls, TicketGone(holder.id))
    (gone,) = await backend.renew([holder])
    assert isinstance(gone, Gone)
    assert others_calls == []


@check(36)
async def a_smaller_weight_lets_others_in(world: World) -> None:
    """In place, with the same epoch: a writer becomes a reader and the next readers enter."""
    backend, _ = await world.backend()
    writer, reader, late_writer = _tickets(world, 4, 1, 4, kind="rwlock", size=4)
    first = await backend.join(writer)
    await backend.join(reader)
    await backend.join(late_writer)
    answer = await backend.change_weight(writer, 1)
    assert isinstance(first, Inside)
    assert isinstance(answer, Inside)
    assert answer.epoch == first.epoch
    assert {row.id: row.weight for row in await world.rows() if row.inside} == {writer.id: 1, reader.id: 1}
    for ticket in (writer, reader, late_writer):
        await backend.leave(ticket)
    assert isinstance(await backend.change_weight(writer, 1), Gone)


@check(46)
async def another_size_lets_others_in_or_refuses_them(world: World) -> None:
    """Raised, it calls whoever now fits; lowered, it refuses whoever never will, and nobody inside is put out."""
    backend, _ = await world.backend()
    line = _tickets(world, 1, 1, 3, kind="semaphore", size=3)
    (first, second, heavy) = line
    for ticket in line:
        await backend.join(ticket)
    await backend.change_size(first.line, 2)
    (gone,) = await backend.renew([heavy])
    assert isinstance(gone, Gone)
    assert [row.id for row in await world.rows() if row.inside] == [first.id, second.id]
    (third,) = _tickets(world, 1, kind="semaphore", size=3)
    assert isinstance(await backend.join(third), Waiting)
    await backend.change_size(first.line, 3)
    assert isinstance(await backend.join(third), Inside)
    for ticket in (first, second, third):
        await backend.leave(ticket)


@check()
async def those_inside_can_be_asked_to_go(world: World) -> None:
    """Their clients hear the reason; who waits does not; nothing else changes."""
    backend, calls = await world.backend()
    other, _ = await world.backend()
    holder, waiter = _tickets(world, 1, 1)
    await backend.join(holder)
    await backend.join(waiter)
    assert await other.revoke(holder.line, "please") == 1
    await _heard(world, calls, AskedToGo(holder.id, "please"))
    assert AskedToGo(waiter.id, "please") not in [replace(call, via=0) for call in calls]
    assert len(await world.rows()) == 2
    await backend.leave(holder)
    await backend.leave(waiter)


@check(48)
async def a_latch_counts_each_operation_once(world: World) -> None:
    """Re-sent operations change nothing; at zero everybody who looked is called."""
    backend, _ = await world.backend()
    other, calls = await world.backend()
    line = LineId("latch", world.key())
    settings = {"count": 2, "ttl": world.ttl}
    assert await other.latch(line, down=0, operation="", **settings) == 2  # type: ignore[arg-type]
    for operation, left in (("a", 1), ("a", 1), ("b", 0), ("c", 0)):
        assert await backend.latch(line, down=1, operation=operation, **settings) == left  # type: ignore[arg-type]
    await _heard(world, calls, Opened(line))


@check(41)
async def epochs_grow_also_when_the_line_was_empty(world: World) -> None:
    """And fit 48 bits, so that the fence fits 63."""
    backend, _ = await world.backend()
    epochs = []
    for ticket in _tickets(world, *[1] * 50):
        answer = await backend.join(ticket)
        assert isinstance(answer, Inside)
        epochs.append(answer.epoch)
        await backend.leave(ticket)
    assert epochs == sorted(set(epochs))
    assert 0 < epochs[0] < epochs[-1] < 1 << 48


@check(16)
async def patterns_are_shell_style(world: World) -> None:
    """`*`, `?` and `[ab]` in what is asked for; every character of a key is itself."""
    backend, _ = await world.backend()
    names = ("x1", "x2", "x10", "x*")
    tickets = [_tickets(world)[0].wishing(line=LineId("lock", world.key(name))) for name in names]
    for ticket in tickets:
        await backend.join(ticket)
    seen = {}
    for pattern in ("x*", "x?", "x[12]", "x[*]", "y*"):
        rows = await backend.inspect("lock", world.key(pattern))
        seen[pattern] = sorted(row.key.rpartition(":")[2] for row in rows)
    assert seen == {
        "x*": ["x*", "x1", "x10", "x2"],
        "x?": ["x*", "x1", "x2"],
        "x[12]": ["x1", "x2"],
        "x[*]": ["x*"],
        "y*": [],
    }
    assert await backend.inspect("semaphore", world.key("x*")) == []
    for ticket in tickets:
        await backend.leave(ticket)
