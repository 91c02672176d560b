"""Broken twins of the read-write lock, semaphore, latch, multi-lock, segments and election."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from aiodlock._core.cohort import Cohort, Shape
from aiodlock._core.engine import Engine
from aiodlock._core.hold import Hold
from aiodlock._core.line import AskedToGo, LineId, Opened, Reconnected
from aiodlock._core.place import INSIDE, WAITING, Place
from aiodlock._core.shared import SharedCohort
from aiodlock.backends.memory import MemoryServer
from aiodlock.locks import agreement, multi, race, rwlock, segmented, semaphore
from aiodlock.locks.base import Synchronizer
from tests.conformance.twins import caught_by, deaf_to, sort_queue

# --- the line ------------------------------------------------------------------------------------------------


def _admit(patch: pytest.MonkeyPatch, how: Any) -> None:
    patch.setattr("aiodlock.backends.memory.server.admit", how)


@caught_by("readers_share_and_a_writer_is_alone", "new_readers_stand_behind_a_waiting_writer")
def a_writer_enters_with_readers(patch: pytest.MonkeyPatch) -> None:
    def crowd(size: int, inside: int, waiting: Iterable[int]) -> int:
        return sum(1 for weight in waiting if inside + weight <= size + 1_000 and (inside := inside + weight))

    _admit(patch, crowd)


@caught_by(
    "never_more_than_its_permits",
    "every_permit_has_an_id_and_a_fence_of_its_own",
    "one_leads_and_everybody_knows_who",
    "users_of_different_segments_do_not_meet",
    "a_smaller_size_lets_stay_who_is_inside",
)
def one_too_many_is_let_in_by_weight(patch: pytest.MonkeyPatch) -> None:
    def one_more(size: int, inside: int, waiting: Iterable[int]) -> int:
        return sum(1 for weight in waiting if inside + weight <= size + 1 and (inside := inside + weight))

    _admit(patch, one_more)


@caught_by("several_permits_are_waited_for_together_and_nobody_overtakes")
def who_fits_overtakes(patch: pytest.MonkeyPatch) -> None:
    call_in = MemoryServer._call_in

    def lightest_first(self: MemoryServer, line: Any, now: float, **settings: Any) -> None:
        sort_queue(line, lambda stand: stand.weight)
        call_in(self, line, now, **settings)

    patch.setattr(MemoryServer, "_call_in", lightest_first)


@caught_by("a_heavy_release_wakes_as_many_as_now_fit")
def a_release_wakes_one(patch: pytest.MonkeyPatch) -> None:
    def one(size: int, inside: int, waiting: Iterable[int]) -> int:
        return int(inside + next(iter(waiting), size + 1) <= size)

    _admit(patch, one)


@caught_by("a_larger_size_lets_waiters_in", "a_smaller_size_lets_stay_who_is_inside")
def a_size_is_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryServer, "change_size", lambda self, line_id, size: None)


@caught_by("the_number_is_set_by_who_comes_first")
def the_last_one_sets_the_number(patch: pytest.MonkeyPatch) -> None:
    line = MemoryServer._line

    def resized(self: MemoryServer, line_id: LineId, now: float, *, size: int) -> Any:
        found = line(self, line_id, now, size=size)
        found.size = size
        return found

    patch.setattr(MemoryServer, "_line", resized)


@caught_by("the_participants_are_told_oldest_first")
def participants_are_told_newest_first(patch: pytest.MonkeyPatch) -> None:
    inspect = MemoryServer.inspect
    patch.setattr(MemoryServer, "inspect", lambda self, kind, pattern: inspect(self, kind, pattern)[::-1])


# --- cohorts -------------------------------------------------------------------------------------------------


@caught_by("new_readers_stand_behind_a_waiting_writer", "readers_do_not_starve_a_writer")
def a_shared_place_never_closes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharedCohort, "company_changed", lambda self, place: None)
    patch.setattr(Place, "set_until", lambda self: setattr(self, "until", self.deadline - self.life / 3))


@caught_by("readers_of_all_clients_are_inside_together", "a_client_has_as_many_tickets_as_there_are_permits")
def nobody_shares_a_ticket(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock.policy.Policy.shares", property(lambda self: False))


@caught_by("fair_readers_have_a_lease_each", "permits_with_a_lease_of_their_own_end_one_by_one")
def everybody_shares_a_ticket(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock.policy.Policy.shares", property(lambda self: True))
    patch.setattr(Cohort, "renews", property(lambda self: True, lambda self, value: None), raising=False)


@caught_by("readers_of_a_lost_ticket_are_all_lost")
def a_loss_is_told_to_one(patch: pytest.MonkeyPatch) -> None:
    place_gone = Cohort.place_gone

    def first_only(self: Cohort, place: Place, reason: str) -> None:
        place.holds = dict.fromkeys(list(place.holds)[:1])
        place_gone(self, place, reason)

    patch.setattr(Cohort, "place_gone", first_only)


@caught_by("a_reader_over_its_max_hold_leaves_the_others_alone")
def max_hold_ends_a_shared_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharedCohort, "over_limit", Cohort.over_limit)


@caught_by("a_writer_that_gives_up_lets_the_readers_behind_it_in")
def who_waited_does_not_leave(patch: pytest.MonkeyPatch) -> None:
    leave = Place.leave

    def stay(self: Place) -> Any:
        if self.state is not WAITING:
            return leave(self)
        self.end()
        done = self.engine.loop.create_future()
        done.set_result(None)
        return done

    patch.setattr(Place, "leave", stay)


@caught_by("a_smaller_size_is_kept_by_those_who_pass_permits_on")
def permits_are_passed_on_whatever_the_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cohort, "hear_size", lambda self, size: None)


@caught_by("any_segment_is_entered_in_the_order_of_asking")
def the_last_to_ask_is_the_first_in(patch: pytest.MonkeyPatch) -> None:
    hand_on = Cohort._hand_on

    def to_the_last(self: Cohort, place: Place, now: float) -> bool:
        self.waiters.rotate(1)
        return hand_on(self, place, now)

    patch.setattr(Cohort, "_hand_on", to_the_last)


# --- the read-write lock -------------------------------------------------------------------------------------


@caught_by("readers_of_all_clients_are_inside_together", "a_downgrade_wakes_waiting_readers_at_once")
def a_reader_is_as_heavy_as_a_writer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rwlock, "_READ", Shape(rwlock._SIZE, rwlock._SIZE, shared=True))


@caught_by("an_upgrade_is_refused_at_once", "a_writer_may_read_and_goes_on_reading", "a_downgrade_outlasts_an_outage")
def a_reader_becomes_a_writer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rwlock.WriteLock, "_held_by", Synchronizer._held_by)


@caught_by("a_writer_may_read_and_goes_on_reading", "a_downgrade_wakes_waiting_readers_at_once")
def a_downgrade_is_not_told(patch: pytest.MonkeyPatch) -> None:
    async def say_nothing(place: Place) -> None:
        assert place.state is INSIDE

    patch.setattr(rwlock, "_lighten", say_nothing)


@caught_by(
    "a_downgrade_outlasts_an_outage",
    "a_downgrade_that_is_never_heard_of_is_a_loss",
    "a_downgrade_whose_answer_is_lost_is_done_once",
    "a_step_whose_answer_is_lost_counts_once",
)
def nothing_is_repeated(patch: pytest.MonkeyPatch) -> None:
    async def once(self: Engine, verb: Any, *, within: float) -> Any:
        return await verb()

    patch.setattr(Engine, "repeat", once)


# --- the semaphore -------------------------------------------------------------------------------------------


@caught_by("every_permit_has_an_id_and_a_fence_of_its_own")
def permits_of_a_client_share_an_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(semaphore.Permit, "permit", property(lambda self: self.owner))


# --- the latch -----------------------------------------------------------------------------------------------


@caught_by("everybody_who_waits_is_let_through_at_zero")
def nobody_hears_that_it_opened(patch: pytest.MonkeyPatch) -> None:
    deaf_to(patch, Opened)


@caught_by("a_latch_that_opened_during_an_outage_is_noticed")
def a_reconnect_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    deaf_to(patch, Opened, Reconnected)


def _latch(patch: pytest.MonkeyPatch, how: Any) -> None:
    latch = MemoryServer.latch
    patch.setattr(MemoryServer, "latch", lambda self, line, client, **asked: how(self, latch, line, client, asked))


@caught_by("a_latch_is_counted_by_any_number_and_never_below_zero")
def every_step_is_one(patch: pytest.MonkeyPatch) -> None:
    _latch(
        patch,
        lambda self, latch, line, client, asked: latch(self, line, client, **{**asked, "down": min(1, asked["down"])}),
    )


@caught_by("a_latch_lives_as_long_as_somebody_waits")
def looking_keeps_nothing_alive(patch: pytest.MonkeyPatch) -> None:
    def look(self: MemoryServer, latch: Any, line: LineId, client: Any, asked: dict[str, Any]) -> int:
        ttl = asked["ttl"] if asked["down"] or line not in self._latches else 0.0
        return int(latch(self, line, client, **{**asked, "ttl": ttl}))

    _latch(patch, look)


@caught_by("a_step_whose_answer_is_lost_counts_once")
def a_step_counts_as_often_as_it_arrives(patch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1_000))
    _latch(
        patch,
        lambda self, latch, line, client, asked: latch(
            self, line, client, **{**asked, "operation": str(next(numbers))}
        ),
    )


@caught_by("waiting_for_a_latch_is_limited")
def waiting_for_a_latch_has_no_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "limit", lambda self, future, seconds, outcome: None)


@caught_by("closing_tells_who_waits_for_a_latch")
def closing_forgets_who_waits_for_a_latch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock._core.latches.Latches.fail", lambda self, error: self._watched.clear())


# --- the multi-lock ------------------------------------------------------------------------------------------


@caught_by("opposite_orders_never_deadlock", "two_permits_each_never_deadlock")
def members_are_taken_as_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(multi, "_in_order", lambda members: members)


@caught_by("every_kind_can_be_a_member", "the_whole_key_is_all_segments")
def the_last_member_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    in_order = multi._in_order
    patch.setattr(multi, "_in_order", lambda members: in_order(members)[:-1])


@caught_by("all_or_nothing", "a_member_that_is_refused_leaves_nothing")
def what_was_got_is_kept(patch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    patch.setattr(multi, "_give_back", lambda holds: (kept.extend(holds) or [], None))


@caught_by("a_task_that_holds_a_later_member_is_told")
def a_deadlock_is_not_foreseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(multi.MultiLock, "_refuse_deadlock", lambda self: None)


@caught_by("one_lost_member_loses_the_whole")
def every_lost_member_cancels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(multi, "_cancel_once", lambda told, hold: hold._cancel())


# --- segments ------------------------------------------------------------------------------------------------


@caught_by("users_of_different_segments_do_not_meet")
def everybody_belongs_to_one_segment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segmented.SegmentHold, "segment", property(lambda self: 0))


@caught_by("two_users_of_one_segment_are_independent")
def one_release_is_enough_for_all(patch: pytest.MonkeyPatch) -> None:
    drop_entry = segmented.SegmentHold._drop_entry

    def drop_all(self: Any) -> Any:
        self._own._entries = 1
        return drop_entry(self)

    patch.setattr(segmented.SegmentHold, "_drop_entry", drop_all)


@caught_by("who_may_steal_takes_the_next_segment", "any_segment_is_whichever_is_free_first")
def one_segment_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(race.Race, "_stand", lambda self, tried: None)


@caught_by("waiting_for_any_segment_leaves_nothing", "any_segment_is_whichever_is_free_first")
def the_losers_of_a_race_stay(patch: pytest.MonkeyPatch) -> None:
    def stay(self: Any) -> None:
        for waiter in self._runners:
            waiter.add_done_callback(lambda waiter: waiter.cancelled() or waiter.exception())

    patch.setattr(race.Race, "end", stay)


@caught_by("another_number_of_segments_is_refused", "the_number_can_change_when_nobody_uses_the_key")
def everybody_counts_as_they_like(patch: pytest.MonkeyPatch) -> None:
    async def agree(self: Any, wait: float | None) -> float | None:
        await asyncio.sleep(0)
        return wait

    patch.setattr(agreement.Agreement, "agree", agree)


@caught_by("the_number_can_change_when_nobody_uses_the_key")
def a_number_is_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agreement.Guard, "_look", lambda self: None)


@caught_by("another_number_comes_after_every_hold_of_the_first", "a_segment_is_lost_with_the_number")
def a_segment_outlives_its_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agreement.Guard, "_lose", Hold._lose)
    for name in ("extend", "_deadline", "_overdue"):
        patch.delattr(segmented.SegmentHold, name)


# --- election, and asking to go --------------------------------------------------------------------------------


@caught_by("a_leader_that_is_cut_off_stops_before_the_next_one_leads")
def a_lost_leader_leads_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock._core.hold.Hold._cancel", lambda self: None)


@caught_by("a_holder_of_any_kind_can_be_asked_to_go")
def nobody_hears_that_it_should_go(patch: pytest.MonkeyPatch) -> None:
    deaf_to(patch, AskedToGo)


@caught_by("a_holder_of_any_kind_can_be_asked_to_go")
def a_ticket_asked_to_go_is_passed_on(patch: pytest.MonkeyPatch) -> None:
    def told_only(self: Cohort, place: Place, reason: str) -> None:
        for own in place.holds:
            own._revocation = reason

    patch.setattr(Cohort, "asked_to_go", told_only)


@caught_by("a_holder_of_any_kind_can_be_asked_to_go")
def a_permit_asked_to_go_is_passed_on(patch: pytest.MonkeyPatch) -> None:
    asked_to_go = Cohort.asked_to_go

    def told_only(self: Cohort, place: Place, reason: str) -> None:
        asked_to_go(self, place, reason)
        if self.line.kind == "semaphore":
            place.asked_to_go = False
            place.set_until()

    patch.setattr(Cohort, "asked_to_go", told_only)
