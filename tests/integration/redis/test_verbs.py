"""Every verb keeps its contract on a real server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from aiodlock._core.line import (
    AskedToGo,
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
    tombstone_life,
)
from aiodlock.backends.base import Capabilities
from aiodlock.errors import BackendDataError
from tests.integration.redis.conftest import Client

Make = Callable[..., Ticket]
Connect = Callable[..., Awaitable[Client]]
MS = 2.0  # what a loaded machine may need for a round trip, in seconds
SHORT = 0.5  # a life that is to end, not before the next round trips are over


# --- join --------------------------------------------------------------------------------------------------


async def test_the_first_is_inside_for_its_ttl_and_a_second_look_finds_the_same(client: Client, ticket: Make) -> None:
    mine = ticket(ttl=20.0)
    first = await client.backend.join(mine)
    assert isinstance(first, Inside)
    assert (first.remaining, first.company, first.via) == (20.0, False, 1)
    again = await client.backend.join(mine)
    assert isinstance(again, Inside)
    assert again.epoch == first.epoch
    assert 20.0 - MS < again.remaining < 20.0


@pytest.mark.usefixtures("scripts_are_loaded")
async def test_the_epoch_is_the_servers_time_in_ticks(client: Client, ticket: Make) -> None:
    before, answer, after = client.do("TIME"), client.backend.join(ticket()), client.do("TIME")
    low, high = [int(s) * 62_500 + int(us) // 16 for s, us in (await before, await after)]
    granted = await answer
    assert isinstance(granted, Inside)
    assert low <= granted.epoch <= high


async def test_epochs_grow_though_the_line_was_empty_between(client: Client, ticket: Make) -> None:
    epochs = []
    for _ in range(20):
        mine = ticket()
        answer = await client.backend.join(mine)
        assert isinstance(answer, Inside)
        epochs.append(answer.epoch)
        await client.backend.leave(mine)
    assert epochs == sorted(set(epochs))


async def test_the_next_waits_and_is_told_when_to_look(client: Client, other: Client, ticket: Make) -> None:
    holder, first, second = ticket(ttl=20.0), ticket(), ticket(ttl=3.0)
    granted = await client.backend.join(holder)
    assert isinstance(granted, Inside)
    answer = await other.backend.join(first)
    assert isinstance(answer, Waiting)
    assert (answer.ahead, answer.last, answer.holder) == (1, granted.epoch, holder.owner)
    assert 20.0 - MS < answer.look_again < 20.0
    answer = await other.backend.join(second)
    assert isinstance(answer, Waiting)
    assert (answer.ahead, answer.look_again) == (2, 1.0)


async def test_every_client_inside_is_told_of_the_first_who_waits(client: Client, other: Client, ticket: Make) -> None:
    one, two, writer, late = (ticket(weight=w, size=10) for w in (1, 1, 10, 1))
    await client.backend.join(one)
    await other.backend.join(two)
    await other.backend.join(writer)
    await other.backend.join(late)
    assert await client.told() == [CompanyCame(one.id, 1)]
    assert await other.told() == [CompanyCame(two.id, 1)]
    answer = await client.answer(one)
    assert isinstance(answer, Inside)
    assert answer.company


async def test_many_inside_are_told_of_company_in_bounded_steps(client: Client, ticket: Make) -> None:
    """Each once, by whatever verb comes next; who leaves before it was told keeps nobody from being told."""
    readers, writer = [ticket(size=1000) for _ in range(600)], ticket(size=1000, weight=1000)
    await asyncio.gather(*(client.backend.join(one) for one in (*readers, writer)))
    told = [await client.told()]
    await client.backend.leave(readers[256])
    told.append(await client.told())
    for _ in range(2):
        await client.answer(writer)
        told.append(await client.told())
    assert [len(calls) for calls in told] == [256, 256, 87, 0]
    assert [*itertools.chain(*told)] == [CompanyCame(one.id, 1) for one in readers if one is not readers[256]]


async def test_nobody_is_told_of_company_that_has_gone(client: Client, ticket: Make) -> None:
    readers, writer = [ticket(size=1000) for _ in range(300)], ticket(size=1000, weight=1000)
    await asyncio.gather(*(client.backend.join(one) for one in (*readers, writer)))
    assert len(await client.told()) == 256
    await client.backend.leave(writer)
    await client.backend.renew(readers[:1])
    assert await client.told() == []


async def test_who_does_not_queue_is_inside_or_nowhere(client: Client, ticket: Make, line: LineId) -> None:
    holder, guest = ticket(), ticket()
    assert isinstance(await client.backend.join(holder, queue=False), Inside)
    assert await client.backend.join(guest, queue=False) == Gone(GoneWhy.BUSY, holder.owner, 1)
    assert [row.id for row in await client.backend.inspect(line.kind, line.key)] == [holder.id]
    assert await client.told() == []
    await client.backend.join(guest)
    assert await client.backend.join(guest, queue=False) == Gone(GoneWhy.BUSY, holder.owner, 1)
    assert [row.id for row in await client.backend.inspect(line.kind, line.key)] == [holder.id]


async def test_who_does_not_queue_does_not_overtake(client: Client, ticket: Make) -> None:
    """A permit is free, but somebody who needs two waits for it."""
    await client.backend.join(ticket(weight=2, size=3))
    await client.backend.join(ticket(weight=2, size=3))
    answer = await client.backend.join(ticket(weight=1, size=3), queue=False)
    assert isinstance(answer, Gone)
    assert answer.why is GoneWhy.BUSY


async def test_leaving_and_standing_again_is_one_step(client: Client, other: Client, ticket: Make) -> None:
    old, waiter, new = ticket(), ticket(), ticket()
    await client.backend.join(old)
    await other.backend.join(waiter)
    answer = await client.backend.join(new, instead_of=old.id)
    assert isinstance(answer, Waiting)
    assert answer.holder == waiter.owner
    (call,) = [c for c in await other.told() if isinstance(c, Called)]
    assert (call.id, call.company, call.epoch) == (waiter.id, True, answer.last)
    assert TicketGone(old.id, 1) not in await client.told()
    again = await client.backend.join(new, instead_of=old.id)
    assert isinstance(again, Waiting)
    assert again.ahead == 1


async def test_standing_again_alone_is_inside_with_a_larger_epoch(client: Client, ticket: Make) -> None:
    old, new = ticket(), ticket()
    first = await client.backend.join(old)
    second = await client.backend.join(new, instead_of=old.id)
    assert isinstance(first, Inside)
    assert isinstance(second, Inside)
    assert second.epoch > first.epoch
    assert await client.answer(old) == Gone(GoneWhy.EXPIRED, None, 1)


async def test_heavier_than_the_line_is_refused(client: Client, ticket: Make) -> None:
    assert await client.backend.join(ticket(weight=4, size=3)) == Gone(GoneWhy.TOO_HEAVY, None, 1)
    await client.backend.join(ticket(weight=1, size=3))
    assert await client.backend.join(ticket(weight=4, size=9)) == Gone(GoneWhy.TOO_HEAVY, None, 1)


async def test_a_full_line_takes_nobody(client: Client, ticket: Make) -> None:
    client.backend.capabilities = Capabilities(most_tickets=2)
    holder = ticket()
    await client.backend.join(holder)
    await client.backend.join(ticket())
    assert await client.backend.join(ticket()) == Gone(GoneWhy.FULL, holder.owner, 1)


# --- lives -------------------------------------------------------------------------------------------------


async def test_a_called_ticket_has_the_rest_of_its_short_life_until_renewed(client: Client, ticket: Make) -> None:
    holder, next_ = ticket(), ticket(ttl=60.0)
    await client.backend.join(holder)
    await client.backend.join(next_)
    await client.backend.leave(holder)
    called = await client.backend.join(next_)
    assert isinstance(called, Inside)
    assert 5.0 - MS < called.remaining < 5.0
    renewed = await client.answer(next_)
    assert isinstance(renewed, Inside)
    assert (renewed.remaining, renewed.epoch) == (60.0, called.epoch)


async def test_no_life_is_shortened(client: Client, ticket: Make) -> None:
    mine, waiter = ticket(ttl=60.0), ticket(ttl=60.0)
    await client.backend.join(mine)
    await client.backend.join(waiter)
    for short in (mine.wishing(ttl=1.0), waiter.wishing(ttl=1.0)):
        await client.answer(short)
    lives = [row.remaining for row in await client.backend.inspect(*mine.line)]
    assert lives == [pytest.approx(60.0, abs=MS), pytest.approx(5.0, abs=MS)]


@pytest.mark.parametrize("swept", [False, True])
async def test_an_expired_ticket_is_gone_to_its_own_renew_and_join(client: Client, ticket: Make, swept: bool) -> None:
    inside, waiting = ticket(ttl=SHORT), ticket(ttl=SHORT)
    await client.backend.join(inside)
    await client.backend.join(waiting)
    await client.until_over(inside, waiting)
    if swept:
        await client.backend.leave(ticket())
    gone = Gone(GoneWhy.EXPIRED, None, 1)
    assert await client.backend.renew([inside, waiting]) == [gone, gone]
    assert await client.backend.join(waiting) == gone
    assert await client.backend.join(inside) == gone
    assert isinstance(await client.backend.join(ticket()), Inside)


VERBS: dict[str, Callable[[Client, Ticket, Ticket], Awaitable[object]]] = {
    "join": lambda client, dead, new: client.backend.join(new),
    "leave": lambda client, dead, new: client.backend.leave(new),
    "renew": lambda client, dead, new: client.backend.renew([dead]),
    "change_weight": lambda client, dead, new: client.backend.change_weight(dead, 1),
    "change_size": lambda client, dead, new: client.backend.change_size(dead.line, 1),
    "revoke": lambda client, dead, new: client.backend.revoke(dead.line, "go"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_every_verb_calls_whoever_fits_when_a_holder_died(
    client: Client, other: Client, ticket: Make, verb: str
) -> None:
    dead, waiter = ticket(ttl=SHORT), ticket()
    await client.backend.join(dead)
    await other.backend.join(waiter)
    await client.until_over(dead)
    await VERBS[verb](client, dead, ticket())
    call = (await other.told())[0]
    assert isinstance(call, Called)
    assert (call.id, call.line) == (waiter.id, waiter.line)


async def test_a_dead_first_waiter_is_passed_over(client: Client, ticket: Make) -> None:
    holder, dead, alive = ticket(), ticket(ttl=SHORT), ticket()
    for one in (holder, dead, alive):
        await client.backend.join(one)
    await client.until_over(dead)
    await client.told()
    await client.backend.leave(holder)
    (call,) = await client.told()
    assert isinstance(call, Called)
    assert call.id == alive.id


async def test_who_looks_clears_away_the_dead_ahead(client: Client, ticket: Make) -> None:
    """They do not pile up behind a long hold."""
    dead = [ticket(ttl=SHORT) for _ in range(6)]
    last = ticket()
    for one in (ticket(), ticket(), *dead, last):
        await client.backend.join(one)
    await client.until_over(*dead)
    for _ in range(2):
        await client.answer(last)
    tickets = [field for field in await client.do("HVALS", client.key(last.line)) if field[:1] == b"\0"]
    assert len(tickets) == 3


async def test_many_dead_inside_are_swept_in_bounded_steps(client: Client, ticket: Make) -> None:
    """No verb looks at more than its share, and a few verbs see all of them, wherever they stand."""
    alive = [ticket(size=1000) for _ in range(150)]
    dead = [ticket(size=1000, ttl=1.0) for _ in range(150)]
    writer = ticket(size=1000, weight=1000)
    mixed = [one for pair in zip(alive, dead, strict=True) for one in pair]
    await asyncio.gather(*(client.backend.join(one) for one in (*mixed, writer)))
    await client.until_over(*dead)
    ahead = []
    for _ in range(6):
        answer = await client.backend.join(writer)
        assert isinstance(answer, Waiting)
        ahead.append(answer.ahead)
    assert ahead == [268, 236, 204, 172, 150, 150]
    assert answer.look_again > 20.0
    await asyncio.gather(*(client.backend.leave(one) for one in alive))
    assert isinstance(await client.backend.join(writer), Inside)


async def test_many_are_let_in_in_bounded_steps(client: Client, ticket: Make, line: LineId) -> None:
    writer, readers = ticket(size=1000, weight=1000), [ticket(size=1000) for _ in range(600)]
    await asyncio.gather(*(client.backend.join(one) for one in (writer, *readers)))
    await client.backend.leave(writer)
    inside = []
    for _ in range(3):
        inside.append(sum(row.inside for row in await client.backend.inspect(*line)))
        await client.answer(readers[0])
    assert inside == [256, 512, 600]
    calls = [call for call in await client.told() if isinstance(call, Called)]
    assert [call.id for call in calls] == [one.id for one in readers]
    assert [call.epoch for call in calls] == sorted({call.epoch for call in calls})


# --- leave -------------------------------------------------------------------------------------------------


async def test_leaving_lets_the_next_in_at_once_and_calls_it(client: Client, other: Client, ticket: Make) -> None:
    holder, waiter = ticket(), ticket()
    granted = await client.backend.join(holder)
    await other.backend.join(waiter)
    await client.backend.leave(holder)
    (call,) = await other.told()
    assert isinstance(call, Called)
    assert isinstance(granted, Inside)
    assert (call.line, call.id, call.company) == (holder.line, waiter.id, False)
    assert call.epoch > granted.epoch
    answer = await other.backend.join(waiter)
    assert isinstance(answer, Inside)
    assert answer.epoch == call.epoch


async def test_leaving_is_idempotent_in_any_state(client: Client, ticket: Make) -> None:
    holder, waiter = ticket(), ticket()
    await client.backend.leave(holder)
    assert await client.do("EXISTS", client.key(holder.line)) == 0
    await client.backend.join(holder)
    await client.backend.join(waiter)
    await client.told()
    for one in (waiter, waiter, holder, holder):
        await client.backend.leave(one)
    assert await client.told() == []
    assert await client.backend.inspect(*holder.line) == []


async def test_a_ticket_that_somebody_else_takes_out_is_told(client: Client, other: Client, ticket: Make) -> None:
    mine, waiter = ticket(), ticket()
    await client.backend.join(mine)
    await client.backend.join(waiter)
    await client.told()
    await other.backend.leave(mine)
    gone, called = sorted(await client.told(), key=lambda call: type(call).__name__, reverse=True)
    assert gone == TicketGone(mine.id, 1)
    assert isinstance(called, Called)
    assert await other.told() == []


async def test_a_buried_id_never_stands(client: Client, ticket: Make) -> None:
    """Also one that was in line, also on a line that did not exist, and every time."""
    for mine in (ticket(), ticket()):
        await client.backend.leave(mine, bury=True)
        for _ in range(2):
            assert await client.backend.join(mine) == Gone(GoneWhy.BURIED, None, 1)
    standing = ticket(ttl=100.0)
    await client.backend.join(standing)
    await client.backend.leave(standing, bury=True)
    await client.backend.leave(standing, bury=True)
    assert await client.backend.join(standing) == Gone(GoneWhy.BURIED, None, 1)
    assert await client.do("PTTL", client.key(standing.line)) >= tombstone_life(100.0) * 1000 - 1000 * MS


async def test_tombstones_whose_time_is_over_go_though_one_lasts_long(client: Client, ticket: Make) -> None:
    line = LineId("lock", "graves")
    lasting = ticket(line=line, ttl=600.0)
    await client.backend.leave(lasting, bury=True)
    for life in (*[0.001] * 30, *[600.0] * 20):
        await client.bury(ticket(line=line), life=life)
    assert await client.do("HLEN", client.key(line)) <= 30
    assert await client.backend.join(lasting) == Gone(GoneWhy.BURIED, None, 1)


# --- renew, change, revoke ---------------------------------------------------------------------------------


async def test_renewing_looks_at_many_lines_and_creates_nothing(client: Client, ticket: Make) -> None:
    lines = [LineId("lock", f"many-{i}") for i in range(5)]
    inside = [ticket(line=one) for one in lines]
    waiting = [ticket(line=one) for one in lines]
    for one in (*inside, *waiting):
        await client.backend.join(one)
    unknown = ticket()
    answers = await client.backend.renew([*waiting, unknown, *inside])
    assert [type(answer) for answer in answers] == [Waiting] * 5 + [Gone] + [Inside] * 5
    assert await client.do("EXISTS", client.key(unknown.line)) == 0
    assert await client.backend.renew([]) == ()


async def test_a_line_spoilt_by_others_does_not_spoil_the_batch(client: Client, ticket: Make) -> None:
    good, bad = ticket(), ticket(line=LineId("lock", "spoilt"))
    await client.backend.join(good)
    await client.do("SET", client.key(bad.line), "mine", "EX", 60)
    answers = await client.backend.renew([bad, good])
    assert answers[0] is None
    assert isinstance(answers[1], Inside)
    with pytest.raises(BackendDataError, match="WRONGTYPE"):
        await client.backend.join(bad)
    assert await client.do("GET", client.key(bad.line)) == b"mine"


async def test_a_smaller_weight_lets_others_in(client: Client, other: Client, ticket: Make) -> None:
    writer, reader = ticket(weight=10, size=10), ticket(weight=1, size=10)
    granted = await client.backend.join(writer)
    await other.backend.join(reader)
    answer = await client.backend.change_weight(writer, 1)
    assert isinstance(granted, Inside)
    assert isinstance(answer, Inside)
    assert (answer.epoch, answer.company) == (granted.epoch, False)
    assert [type(call) for call in await other.told()] == [Called]
    await client.backend.change_weight(writer, 10)
    assert isinstance(await client.backend.join(ticket(weight=8, size=10)), Inside)


async def test_only_a_ticket_inside_changes_its_weight(client: Client, ticket: Make) -> None:
    holder, waiter = ticket(), ticket()
    await client.backend.join(holder)
    await client.backend.join(waiter)
    for one in (waiter, ticket()):
        assert await client.backend.change_weight(one, 1) == Gone(GoneWhy.EXPIRED, None, 1)


async def test_the_size_is_set_by_the_first_join_of_an_empty_line(client: Client, ticket: Make) -> None:
    first, second = ticket(size=2), ticket(size=9)
    await client.backend.join(first)
    await client.backend.join(second)
    assert isinstance(await client.backend.join(ticket(size=9)), Waiting)
    for one in await client.backend.inspect(*first.line):
        await client.backend.leave(replace(first, id=one.id))
    await client.backend.join(ticket(size=1))
    assert isinstance(await client.backend.join(ticket(size=9)), Waiting)


async def test_a_larger_size_calls_and_a_smaller_one_refuses(client: Client, other: Client, ticket: Make) -> None:
    one, two, heavy, light = (ticket(weight=w, size=3) for w in (3, 2, 3, 1))
    for each in (one, two, heavy, light):
        await other.backend.join(each)
    await other.told()
    await client.backend.change_size(one.line, 5)
    (call,) = await other.told()
    assert isinstance(call, Called)
    assert call.id == two.id
    await client.backend.change_size(one.line, 2)
    assert await other.told() == [TicketGone(heavy.id, 1)]
    assert await other.backend.join(heavy) == Gone(GoneWhy.TOO_HEAVY, None, 1)
    answers = await other.backend.renew([one, two, light])
    assert [type(answer) for answer in answers] == [Inside, Inside, Waiting]


async def test_an_empty_line_has_no_size_to_change(client: Client, ticket: Make) -> None:
    mine = ticket()
    await client.backend.change_size(mine.line, 5)
    assert await client.do("EXISTS", client.key(mine.line)) == 0


async def test_revoking_asks_all_inside(client: Client, other: Client, ticket: Make) -> None:
    one, two, waiter = ticket(size=2), ticket(size=2), ticket(size=2)
    await client.backend.join(one)
    await other.backend.join(two)
    await client.backend.join(waiter)
    await client.told(), await other.told()
    assert await other.backend.revoke(one.line, "needed: now 秒") == 2
    assert await client.told() == [AskedToGo(one.id, "needed: now 秒", 1)]
    assert await other.told() == [AskedToGo(two.id, "needed: now 秒", 1)]


# --- latch -------------------------------------------------------------------------------------------------


async def test_a_latch_counts_each_operation_once_and_opens_for_all(client: Client, other: Client) -> None:
    line = LineId("latch", "warm up")
    assert await other.backend.latch(line, count=3, down=0, operation="", ttl=5.0) == 3
    for _ in range(2):
        assert await client.backend.latch(line, count=3, down=2, operation="a", ttl=5.0) == 1
    assert await other.told() == []
    assert await client.backend.latch(line, count=3, down=5, operation="b", ttl=5.0) == 0
    assert await other.told() == await client.told() == [Opened(line, 1)]
    assert await client.backend.latch(line, count=3, down=1, operation="c", ttl=5.0) == 0
    assert await other.told() == []


async def test_a_latch_lives_its_ttl_after_the_last_call(client: Client) -> None:
    line = LineId("latch", "short " + "k" * 100)
    await client.backend.latch(line, count=2, down=1, operation="a", ttl=60.0)
    await client.backend.latch(line, count=2, down=0, operation="", ttl=0.02)
    assert 60_000 - 1000 * MS < await client.do("PTTL", client.key(line)) <= 60_001  # rounded up
    await client.do("DEL", client.key(line))
    await client.backend.latch(line, count=2, down=1, operation="a", ttl=0.02)
    while await client.do("EXISTS", client.key(line)):
        pass
    assert await client.backend.latch(line, count=2, down=1, operation="a", ttl=5.0) == 1


# --- inspect, hygiene --------------------------------------------------------------------------------------


async def test_inspect_shows_who_holds_and_who_waits(client: Client, ticket: Make) -> None:
    holder, waiter = ticket(ttl=20.0, size=3, weight=2), ticket(ttl=20.0, size=3, weight=2)
    granted = await client.backend.join(holder)
    await client.backend.join(waiter)
    one, two = await client.backend.inspect(*holder.line)
    assert isinstance(granted, Inside)
    assert (one.kind, one.key, one.id, one.owner) == (*holder.line, holder.id, holder.owner)
    assert (one.inside, one.weight, one.epoch) == (True, 2, granted.epoch)
    assert (two.id, two.inside, two.weight, two.epoch) == (waiter.id, False, 2, None)
    assert 0 <= two.since <= one.since < MS
    assert 20.0 - MS < one.remaining < 20.0
    assert 5.0 - MS < two.remaining < 5.0


async def test_inspect_finds_lines_by_pattern_and_nothing_else(connect: Connect) -> None:
    client = await connect(prefix="inspected")
    names = ["order:1", "order:2", "order:{3}", "order:*", "stock:1", "order:" + "秒" * 80]
    for name in names:
        await client.backend.join(Ticket.of(LineId("lock", name), TicketId(f"t {name}")))
    await client.backend.join(Ticket.of(LineId("rwlock", "order:1"), TicketId("w")))
    await client.backend.latch(LineId("latch", "order:1"), count=1, down=0, operation="", ttl=5.0)
    await client.do("HSET", "inspected:{foreign", "field", "value")

    async def keys(kind: str, pattern: str) -> list[str]:
        return sorted(row.key for row in await client.backend.inspect(kind, pattern))

    assert await keys("lock", "*") == sorted(names)
    assert await keys("*", "order:1") == ["order:1", "order:1"]
    assert await keys("lock", "order:?") == ["order:*", "order:1", "order:2"]
    assert await keys("lock", "order:[*]") == ["order:*"]
    assert await keys("lock", "order:{3}") == ["order:{3}"]
    assert await keys("lock", "order:秒*") == [names[-1]]
    assert await keys("semaphore", "*") == []


async def test_inspect_passes_over_what_is_not_ours_and_what_is_broken(connect: Connect) -> None:
    """A line that cannot be read hides no other; asked for alone, it says so."""
    client = await connect(prefix="mixed")
    good, odd = (Ticket.of(LineId("lock", name), TicketId("t")) for name in ("good", "odd"))
    await client.backend.join(good)
    await client.backend.join(odd.wishing(owner="who"))
    await client.do("HSET", b"mixed:{\xff}:lock", "field", "value")
    await client.do("HSET", "mixed:{garbage}:lock", "line", "garbage")
    header = await client.do("HGET", client.key(odd.line), "line")
    await client.do("HSET", client.key(odd.line), "line", header.replace(b"who", b"w\xffo"))
    assert [row.key for row in await client.backend.inspect("*", "*")] == ["good"]
    for key in ("garbage", "odd"):
        with pytest.raises(BackendDataError):
            await client.backend.inspect("lock", key)


async def test_inspect_reads_a_long_line_in_pages(client: Client, ticket: Make) -> None:
    tickets = [ticket(f"p{i}") for i in range(1203)]
    for one in tickets:
        client.backend.join(one)
    rows = await client.backend.inspect(*tickets[0].line)
    assert [row.id for row in rows] == [one.id for one in tickets]


async def test_no_key_is_without_an_expiry(connect: Connect) -> None:
    client = await connect(prefix="hygiene")
    standing, left, buried = (Ticket.of(LineId("lock", name), TicketId("t"), ttl=40.0) for name in "abc")
    await client.backend.join(standing)
    await client.backend.join(left)
    await client.backend.leave(left)
    await client.backend.leave(buried, bury=True)
    await client.backend.join(Ticket.of(LineId("lock", "long " * 40), TicketId("t"), ttl=40.0))
    await client.backend.latch(LineId("latch", "l"), count=1, down=1, operation="o", ttl=40.0)
    keys = await client.do("KEYS", "hygiene:*")
    lives = {key: await client.do("PTTL", key) for key in keys}
    assert len(lives) == 5
    assert all(0 < life <= 200_000 for life in lives.values()), lives
    assert lives[client.key(standing.line)] >= 100_000 - 1000 * MS  # its end, and the last epoch beyond it
    assert lives[client.key(left.line)] >= 60_000 - 1000 * MS
    assert lives[client.key(buried.line)] >= 160_000 - 1000 * MS


async def test_a_key_does_not_outlive_a_long_lease_that_was_given_back(client: Client, ticket: Make) -> None:
    for waits in (False, True):
        mine = ticket(ttl=86_400.0)
        await client.backend.join(mine)
        if waits:
            other = ticket()
            await client.backend.join(other)
            await client.backend.leave(other)
        await client.backend.leave(mine)
        assert await client.do("PTTL", client.key(mine.line)) <= 200_000


async def test_hashed_keys_are_called_by_their_name(client: Client, other: Client, ticket: Make) -> None:
    line = LineId("lock", "a long key with spaces: " + "x" * 200)
    holder, waiter = ticket(line=line), ticket(line=line)
    await client.backend.leave(ticket(line=line), bury=True)
    await client.backend.join(holder)
    await other.backend.join(waiter)
    await client.backend.leave(holder)
    (call,) = await other.told()
    assert isinstance(call, Called)
    assert call.line == line


async def test_a_client_without_pushes_is_told_nothing(client: Client, connect: Connect, ticket: Make) -> None:
    quiet = await connect(pushes=False)
    assert not quiet.backend.capabilities.pushes
    holder, waiter = ticket(), ticket()
    await client.backend.join(holder)
    await quiet.backend.join(waiter)
    await client.backend.leave(holder)
    assert await quiet.told() == []
    assert isinstance(await quiet.backend.join(waiter), Inside)
