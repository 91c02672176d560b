"""Broken twins: each breaks exactly one rule, and the checks named beside it must fail on it.

A check that no twin can make fail proves nothing; the last test keeps the list of those short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aiodlock._core import place
from aiodlock._core.cohort import Cohort
from aiodlock._core.engine import Engine
from aiodlock._core.hold import Hold
from aiodlock._core.line import (
    Answer,
    Called,
    CompanyCame,
    Gone,
    GoneWhy,
    Inside,
    LineId,
    Ticket,
    TicketGone,
    Waiting,
    admit,
)
from aiodlock._core.place import Place
from aiodlock._core.retries import Retries
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing.conformance import CHECKS, MemoryWorld, run
from tests.conformance import twins_of_kinds  # noqa: F401 (registers its own)
from tests.conformance.twins import TWINS, caught_by, deaf_to, sort_queue

BY_NAME = {check.name: check for check in CHECKS}


# --- a server that breaks one rule -------------------------------------------------------------------------


@caught_by("only_the_owner_releases", "leaving_is_always_possible", "a_release_whose_answer_is_lost_is_done_once")
def a_release_is_not_owner_checked(patch: pytest.MonkeyPatch) -> None:
    leave = MemoryServer.leave

    def anybody(self: MemoryServer, ticket: Ticket, client: Any, *, bury: bool) -> None:
        line = self._line(ticket.line, self.clock.now(), size=1)
        for id_ in list(line.inside):
            leave(self, replace(ticket, id=id_), client, bury=False)
        leave(self, ticket, client, bury=bury)

    patch.setattr(MemoryServer, "leave", anybody)


@caught_by("epochs_grow_also_when_the_line_was_empty", "fences_grow_over_every_kind_of_end", "one_at_a_time")
def epochs_do_not_grow(patch: pytest.MonkeyPatch) -> None:
    call_in = MemoryServer._call_in

    def same(self: MemoryServer, line: Any, now: float, **settings: Any) -> None:
        line.last = 0
        call_in(self, line, now, **settings)

    patch.setattr("aiodlock.backends.memory.server._TICKS_PER_SECOND", 0)

    patch.setattr(MemoryServer, "_call_in", same)


@caught_by("joining_again_is_looking", "an_acquire_whose_answer_is_lost_is_one_hold")
def a_join_sent_again_stands_again(patch: pytest.MonkeyPatch) -> None:
    join = MemoryServer.join

    def again(self: MemoryServer, ticket: Ticket, client: Any, **settings: Any) -> Answer:
        line = self._line(ticket.line, self.clock.now(), size=1)
        if ticket.id in line.inside:
            ticket = replace(ticket, id=f"{ticket.id}+")
        return join(self, ticket, client, **settings)

    patch.setattr(MemoryServer, "join", again)


@caught_by("a_buried_ticket_never_stands")
def nothing_is_buried(patch: pytest.MonkeyPatch) -> None:
    leave = MemoryServer.leave
    patch.setattr(MemoryServer, "leave", lambda self, ticket, client, *, bury: leave(self, ticket, client, bury=False))


@caught_by("an_expired_ticket_never_stands_again", "a_life_ends_by_the_servers_clock")
def the_expired_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    sweep = MemoryServer._sweep

    def forget(self: MemoryServer, line: Any, now: float) -> None:
        sweep(self, line, now)
        line.tombstones.clear()

    patch.setattr(MemoryServer, "_sweep", forget)


@caught_by("one_ticket_can_stand_instead_of_another")
def standing_again_keeps_the_old_ticket(patch: pytest.MonkeyPatch) -> None:
    join = MemoryServer.join
    patch.setattr(
        MemoryServer,
        "join",
        lambda self, ticket, client, *, queue, instead_of: join(self, ticket, client, queue=queue, instead_of=None),
    )


@caught_by("one_at_a_time", "a_counter_is_exact", "the_next_one_waits", "trying_does_not_wait", "nobody_overtakes")
def one_too_many_is_let_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "aiodlock.backends.memory.server.admit", lambda size, inside, waiting: admit(size + 1, inside, waiting)
    )


@caught_by("the_front_fits_the_size_and_nobody_overtakes")
def a_light_ticket_overtakes(patch: pytest.MonkeyPatch) -> None:
    call_in = MemoryServer._call_in

    def lightest_first(self: MemoryServer, line: Any, now: float, **settings: Any) -> None:
        sort_queue(line, lambda stand: stand.weight)
        call_in(self, line, now, **settings)

    patch.setattr(MemoryServer, "_call_in", lightest_first)


@caught_by("a_fair_lock_is_entered_in_the_order_of_asking")
def the_last_one_is_served_first(patch: pytest.MonkeyPatch) -> None:
    call_in = MemoryServer._call_in

    def newest_first(self: MemoryServer, line: Any, now: float, **settings: Any) -> None:
        sort_queue(line, lambda stand: -stand.serial)
        call_in(self, line, now, **settings)

    patch.setattr(MemoryServer, "_call_in", newest_first)


@caught_by(
    "a_life_ends_by_the_servers_clock",
    "the_end_of_a_lease_frees_the_lock_and_wakes_the_next",
    "releasing_after_the_end_says_lost_and_leaves_the_new_holder",
    "a_dead_holder_costs_at_most_its_lease",
    "a_dead_waiter_costs_at_most_its_waiting_life",
    "a_dead_reader_costs_at_most_its_lease",
    "the_permit_of_a_dead_client_comes_back",
    "a_stale_write_is_refused_by_its_fence",
    "an_outage_longer_than_the_lease_is_noticed_before_others_get_in",
)
def no_life_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryServer, "_sweep", lambda self, line, now: None)
    look = MemoryServer._look

    def look_later(self: MemoryServer, line: Any, ticket: Ticket, now: float) -> Answer:
        answer = look(self, line, ticket, now)
        return replace(answer, look_again=1.0) if isinstance(answer, Waiting) else answer

    patch.setattr(MemoryServer, "_look", look_later)


@caught_by("a_lease_does_not_leak_into_the_next")
def a_life_is_as_long_as_the_longest_before(patch: pytest.MonkeyPatch) -> None:
    join, longest = MemoryServer.join, {}

    def leaky(self: MemoryServer, ticket: Ticket, client: Any, **settings: Any) -> Answer:
        longest[ticket.line] = max(ticket.ttl, longest.get(ticket.line, 0.0))
        return join(self, ticket.wishing(ttl=longest[ticket.line]), client, **settings)

    patch.setattr(MemoryServer, "join", leaky)


@caught_by("renewing_keeps_and_never_creates_or_shortens", "a_lease_can_be_extended")
def a_renewal_shortens(patch: pytest.MonkeyPatch) -> None:
    renew = MemoryServer._renew

    def shorten(self: MemoryServer, ticket: Ticket, now: float) -> Answer:
        stand = self._line(ticket.line, now, size=1).stands.get(ticket.id)
        if stand is not None and stand.epoch is not None:
            stand.ends = now + ticket.ttl
        return renew(self, ticket, now)

    patch.setattr(MemoryServer, "_renew", shorten)


@caught_by("renewing_keeps_and_never_creates_or_shortens", "a_life_ends_by_the_servers_clock")
def a_renewal_creates(patch: pytest.MonkeyPatch) -> None:
    renew = MemoryServer._renew

    def create(self: MemoryServer, ticket: Ticket, now: float) -> Answer:
        line = self._line(ticket.line, now, size=ticket.size)
        if ticket.id not in line.stands:
            self._stand(line, ticket, MemoryBackend(server=self), now)
            self._call_in(line, now, quiet=ticket.id)
        return renew(self, ticket, now)

    patch.setattr(MemoryServer, "_renew", create)


@caught_by("a_renewed_hold_and_its_waiter_outlive_any_lease", "a_called_ticket_has_a_short_life_until_it_is_renewed")
def a_renewal_does_nothing(patch: pytest.MonkeyPatch) -> None:
    def only_look(self: MemoryServer, ticket: Ticket, now: float) -> Answer:
        return self._look(self._line(ticket.line, now, size=1), ticket, now)

    patch.setattr(MemoryServer, "_renew", only_look)


@caught_by("a_called_ticket_has_a_short_life_until_it_is_renewed")
def a_called_ticket_lives_its_ttl(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ticket, "waiting_life", property(lambda self: self.ttl))


@caught_by("leaving_lets_the_next_one_in_and_calls_it", "a_release_right_after_the_join_is_not_missed")
def nobody_is_called(patch: pytest.MonkeyPatch) -> None:
    deaf_to(patch, Called)


@caught_by("who_is_inside_hears_of_company", "a_lingering_ticket_gives_way")
def company_is_not_told(patch: pytest.MonkeyPatch) -> None:
    deaf_to(patch, CompanyCame)


@caught_by("a_ticket_that_others_made_leave_is_told")
def who_was_made_to_leave_is_not_told(patch: pytest.MonkeyPatch) -> None:
    deaf_to(patch, TicketGone)


@caught_by("who_does_not_queue_is_inside_or_gone", "trying_does_not_wait", "retrying_never_stands_in_line")
def a_try_stays_in_line(patch: pytest.MonkeyPatch) -> None:
    join = MemoryServer.join

    def stay(self: MemoryServer, ticket: Ticket, client: Any, *, queue: bool, instead_of: Any) -> Answer:
        answer = join(self, ticket, client, queue=True, instead_of=instead_of)
        return answer if queue or not isinstance(answer, Waiting) else Gone(GoneWhy.BUSY, holder=answer.holder)

    patch.setattr(MemoryServer, "join", stay)


def _rename_lines(patch: pytest.MonkeyPatch, other: Callable[[LineId], LineId]) -> None:
    line = MemoryServer._line
    patch.setattr(MemoryServer, "_line", lambda self, name, now, *, size: line(self, other(name), now, size=size))


@caught_by("odd_keys_are_different_keys")
def keys_are_folded(patch: pytest.MonkeyPatch) -> None:
    _rename_lines(patch, lambda line: LineId(line.kind, line.key.replace("A", "a")))


@caught_by("patterns_are_shell_style")
def a_pattern_is_a_prefix(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fnmatch.fnmatchcase", lambda key, pattern: key.startswith(pattern.rstrip("*?")))


@caught_by("kinds_are_different_lines")
def kinds_are_one_line(patch: pytest.MonkeyPatch) -> None:
    _rename_lines(patch, lambda line: LineId("one", line.key))


@caught_by("inspect_tells_who_holds_and_who_waits", "waiting_is_limited")
def owners_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    join = MemoryServer.join
    patch.setattr(
        MemoryServer, "join", lambda self, ticket, client, **how: join(self, ticket.wishing(owner="?"), client, **how)
    )


@caught_by("a_smaller_weight_lets_others_in")
def a_smaller_weight_lets_nobody_in(patch: pytest.MonkeyPatch) -> None:
    def only_look(self: MemoryServer, ticket: Ticket, weight: int) -> Answer:
        now = self.clock.now()
        return self._look(self._line(ticket.line, now, size=1), ticket, now)

    patch.setattr(MemoryServer, "change_weight", only_look)


@caught_by("another_size_lets_others_in_or_refuses_them")
def another_size_is_not_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryServer, "change_size", lambda self, line_id, size: None)


@caught_by("the_first_one_sets_the_size")
def every_join_sets_the_size(patch: pytest.MonkeyPatch) -> None:
    line = MemoryServer._line

    def resized(self: MemoryServer, line_id: LineId, now: float, *, size: int) -> Any:
        found = line(self, line_id, now, size=size)
        found.size = size
        return found

    patch.setattr(MemoryServer, "_line", resized)


@caught_by("those_inside_can_be_asked_to_go")
def everybody_is_asked_to_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryServer, "revoke", lambda self, line_id, reason: 2)


@caught_by("a_latch_counts_each_operation_once")
def an_operation_counts_each_time(patch: pytest.MonkeyPatch) -> None:
    latch = MemoryServer.latch
    numbers = iter(range(1_000))
    patch.setattr(
        MemoryServer,
        "latch",
        lambda self, line, client, **how: latch(self, line, client, **{**how, "operation": str(next(numbers))}),
    )


@caught_by("a_server_that_is_there_answers")
def nobody_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBackend, "ping", lambda self: asyncio.get_running_loop().create_future())


# --- an engine that breaks one rule ------------------------------------------------------------------------


@caught_by("re_entry_is_counted", "an_inner_acquire_keeps_the_outer_lease")
def re_entries_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    drop_entry = Hold._drop_entry

    def drop_all(self: Hold) -> Any:
        self._own._entries = 1
        return drop_entry(self)

    patch.setattr(Hold, "_drop_entry", drop_all)


@caught_by("without_re_entry_the_second_acquire_raises")
def a_task_waits_for_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock.locks.base.Synchronizer._held_by", lambda self, task, engine: None)


@caught_by("many_local_waiters_are_one_ticket")
def hand_offs_share_a_fence(patch: pytest.MonkeyPatch) -> None:
    begin = Hold.__init__

    def begin_with_the_last_fence(self: Hold, cohort: Cohort, place: Place, now: float) -> None:
        place.fence = max(place.fence - 1, place.fence >> 15 << 15)
        begin(self, cohort, place, now)

    patch.setattr(Hold, "__init__", begin_with_the_last_fence)


@caught_by("the_lease_is_told_and_not_overstated", "an_outage_longer_than_the_lease_is_noticed_before_others_get_in")
def a_lease_is_believed_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(place, "deadline_of", lambda sent_at, remaining: sent_at + remaining * 1.2)


@caught_by("a_renewed_hold_and_its_waiter_outlive_any_lease", "an_outage_shorter_than_the_lease_is_survived")
def nothing_is_renewed(patch: pytest.MonkeyPatch) -> None:
    def visit_only(self: Engine, places: list[Place], now: float) -> None:
        for one in places:
            one.visit(now)

    patch.setattr(Engine, "_visit", visit_only)


@caught_by("the_end_of_a_lease_frees_the_lock_and_wakes_the_next", "polling_stands_in_line")
def a_lost_call_is_never_looked_for(patch: pytest.MonkeyPatch) -> None:
    """Waiting tickets are kept alive, but nobody hears what the renewal says; and no call comes."""
    deaf_to(patch, Called)
    renewed = Place.renewed

    def deaf(self: Place, sent_at: float, knew_inside: bool, answer: Any) -> None:
        if isinstance(answer, Inside) and not knew_inside:
            answer = None
        renewed(self, sent_at, knew_inside, answer)

    patch.setattr(Place, "renewed", deaf)


@caught_by("a_parked_waiter_looks_after_a_reconnect")
def a_reconnect_is_not_looked_after(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBackend, "reconnect", lambda self: setattr(self, "via", self.via + 1))
    deaf_to(patch, Called)


@caught_by("a_cancelled_acquire_leaves_nothing")
def a_grant_that_comes_with_the_cancel_is_kept(patch: pytest.MonkeyPatch) -> None:
    give_up = Cohort.give_up

    def keep(self: Cohort, waiter: Any) -> None:
        if waiter.cancelled() or waiter.result() is None:
            give_up(self, waiter)

    patch.setattr(Cohort, "give_up", keep)


@caught_by("a_waiter_in_doubt_leaves_no_ticket")
def a_ticket_in_doubt_is_not_left(patch: pytest.MonkeyPatch) -> None:
    send_leave = Place._send_leave
    patch.setattr(Place, "_send_leave", lambda self: None if self.unanswered else send_leave(self))


@caught_by("waiting_is_limited")
def who_gives_up_stays_in_line(patch: pytest.MonkeyPatch) -> None:
    give_up = Cohort.give_up

    def stay(self: Cohort, waiter: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Cohort, "balance", lambda self: None)
            give_up(self, waiter)

    patch.setattr(Cohort, "give_up", stay)


@caught_by("waiting_is_limited", "retrying_never_stands_in_line", "a_server_that_is_down_is_told_in_time")
def waiting_has_no_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "limit", lambda self, future, seconds, outcome: None)
    patch.setattr(Retries, "count", lambda self: None)


@caught_by("force_release_frees_and_tells", "max_hold_ends_a_renewed_hold")
def a_lost_block_is_not_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hold, "_cancel", lambda self: None)


@caught_by("max_hold_ends_a_renewed_hold")
def max_hold_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hold, "_set_limit", lambda self, max_hold: None)


@caught_by("nothing_is_renewed_after_a_release", "re_entry_is_counted", "odd_keys_are_different_keys")
def a_release_tells_nobody(patch: pytest.MonkeyPatch) -> None:
    def silent(self: Place) -> Any:
        self.end()
        done = self.engine.loop.create_future()
        done.set_result(None)
        return done

    patch.setattr(Place, "leave", silent)


@caught_by("closing_leaves_nothing")
def closing_leaves_everything(patch: pytest.MonkeyPatch) -> None:
    async def close(self: Engine) -> None:
        self.is_open = False
        self.watchdog.stop()
        await self.backend.aclose()
        await self.work.stop()

    patch.setattr(Engine, "close", close)


@caught_by("many_local_waiters_are_one_ticket")
def everybody_has_a_ticket(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock.policy.Policy.shares", property(lambda self: False))


@caught_by("two_busy_clients_take_turns")
def a_batch_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "batch", 1_000.0)


@caught_by("run_is_exclusive")
def run_forgets_results(patch: pytest.MonkeyPatch) -> None:
    async def run_nothing(self: Any, function: Callable[[], Any]) -> int:
        function()
        return 0

    patch.setattr("aiodlock.locks.base.Synchronizer.run", run_nothing)


@caught_by("clients_clocks_decide_nothing")
def the_order_is_that_of_clients_clocks(patch: pytest.MonkeyPatch) -> None:
    call_in, shifts = MemoryServer._call_in, {"client-1": 3_600.0, "client-2": -3_600.0}

    def by_their_clocks(self: MemoryServer, line: Any, now: float, **settings: Any) -> None:
        sort_queue(line, lambda stand: stand.since + shifts.get(stand.ticket.owner, 0.0))
        call_in(self, line, now, **settings)

    patch.setattr(MemoryServer, "_call_in", by_their_clocks)


@caught_by("standing_again_in_vain_leaves_nothing")
def who_is_refused_leaves_its_old_ticket(patch: pytest.MonkeyPatch) -> None:
    join = MemoryServer.join

    def refuse_first(self: MemoryServer, ticket: Ticket, client: Any, *, queue: bool, instead_of: Any) -> Answer:
        now = self.clock.now()
        refusal = self._refuse(self._line(ticket.line, now, size=ticket.size), ticket, now, most=1_000)
        return refusal or join(self, ticket, client, queue=queue, instead_of=instead_of)

    patch.setattr(MemoryServer, "join", refuse_first)


# --- they are caught ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("twin", "check"), [(twin, check) for twin, (_, checks) in TWINS.items() for check in checks])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_twin_is_caught(monkeypatch: pytest.MonkeyPatch, twin: str, check: str) -> None:
    """The check fails on it, and passes without it."""
    run(BY_NAME[check], MemoryWorld())
    TWINS[twin][0](monkeypatch)
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        run(BY_NAME[check], MemoryWorld())
    assert not isinstance(raised.value, KeyboardInterrupt | NameError | AttributeError | TypeError), raised.value


def test_every_check_has_a_twin() -> None:
    """None of them passes whatever the backend does."""
    caught = {check for _, checks in TWINS.values() for check in checks}
    assert sorted(set(BY_NAME) - caught) == []
