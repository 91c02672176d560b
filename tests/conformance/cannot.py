"""What a backend does not promise: the checks that are not run on it, and why."""

from __future__ import annotations

from aiodlock.testing.conformance import CHECKS

__all__ = ["CANNOT"]


def _of(*modules: str) -> tuple[str, ...]:
    return tuple(check.name for check in CHECKS if check.prove.__module__.rpartition(".")[2] in modules)


CANNOT: dict[str, dict[str, tuple[str, ...]]] = {
    "redlock": {
        "nobody stands in line: who waits tries again, in no order, and is not shown": (
            "the_next_one_waits",
            "one_ticket_can_stand_instead_of_another",
            "renewing_keeps_and_never_creates_or_shortens",
            "an_expired_ticket_never_stands_again",
            "a_called_ticket_has_a_short_life_until_it_is_renewed",
            "who_is_inside_hears_of_company",
            "a_smaller_weight_lets_others_in",
            "those_inside_can_be_asked_to_go",
            "inspect_tells_who_holds_and_who_waits",
            "nobody_overtakes",
            "many_local_waiters_are_one_ticket",
            "polling_stands_in_line",
            "new_readers_stand_behind_a_waiting_writer",
            "readers_do_not_starve_a_writer",
            "a_downgrade_wakes_waiting_readers_at_once",
        ),
        "fair=True and linger are refused": (
            "a_renewed_hold_and_its_waiter_outlive_any_lease",
            "a_fair_lock_is_entered_in_the_order_of_asking",
            "a_dead_waiter_costs_at_most_its_waiting_life",
            "clients_clocks_decide_nothing",
            "a_lingering_ticket_gives_way",
            "fair_readers_have_a_lease_each",
            "a_reader_over_its_max_hold_leaves_the_others_alone",
            "a_writer_that_gives_up_lets_the_readers_behind_it_in",
        ),
        "locks and read-write locks only": (
            *_of("semaphore", "latch", "segmented"),
            "the_front_fits_the_size_and_nobody_overtakes",
            "the_first_one_sets_the_size",
            "another_size_lets_others_in_or_refuses_them",
            "standing_again_in_vain_leaves_nothing",
            "a_latch_counts_each_operation_once",
            "kinds_are_different_lines",
            "two_permits_each_never_deadlock",
            "every_kind_can_be_a_member",
            "a_member_that_is_refused_leaves_nothing",
            "a_task_that_holds_a_later_member_is_told",
            "a_holder_of_any_kind_can_be_asked_to_go",
        ),
    },
}

_AS_REDLOCK = [name for names in CANNOT["redlock"].values() for name in names]
CANNOT["lock-table"] = {
    "nobody stands in line, and who comes first is luck": (*_AS_REDLOCK, "two_busy_clients_take_turns"),
    "nothing is remembered of who has left or was late; the time is both life and epoch": (
        "a_buried_ticket_never_stands",
        "a_life_ends_by_the_servers_clock",
        "joining_again_is_looking",
    ),
    "locks only": tuple(name for name in _of("rwlock") if name not in _AS_REDLOCK),
}
