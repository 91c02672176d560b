"""The engine with one thing broken at a time, and the cell of the sweep that shows it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from aiodlock import client
from aiodlock._core import block, engine, hold
from aiodlock._core.cohort import Cohort
from aiodlock._core.latches import Latches
from aiodlock._core.ledger import Ledger
from aiodlock._core.line import Ticket
from aiodlock._core.place import Place
from aiodlock._core.stock import Returned
from aiodlock._core.wake import Waiter
from aiodlock.backends.memory import MemoryBackend
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.locks import base, multi, race
from tests.cancellation.matrix import ONCE
from tests.cancellation.sweep import Cell
from tests.cancellation.trigger import Plan
from tests.cancellation.wire import SlowBackend

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True, slots=True)
class Mutation:
    """Something broken, where it shows, and as what."""

    breaks: Callable[[pytest.MonkeyPatch], None]
    cell: Cell
    shows: str
    plans: tuple[Plan, ...] = tuple(ONCE)


def _nothing(*_: Any, **__: Any) -> None:
    pass


async def _nothing_later(*_: Any, **__: Any) -> None:
    pass


def _leaves_without_burying(patch: pytest.MonkeyPatch) -> None:
    def leave(self: SlowBackend, ticket: Ticket, *, bury: bool = False) -> Any:
        return MemoryBackend.leave(self, ticket)

    patch.setattr(SlowBackend, "leave", leave)


def _stands_in_the_place_of_one_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """Replace a ticket without burying it, whatever is still on its way."""
    retire = Cohort._retire_place

    def retire_place(self: Cohort, place: Place) -> Any:
        place.unanswered = 0
        return retire(self, place)

    patch.setattr(Cohort, "_retire_place", retire_place)


def _forgets_a_grant(patch: pytest.MonkeyPatch) -> None:
    give_up = Cohort.give_up

    def forget(self: Cohort, waiter: Waiter) -> None:
        if waiter.cancelled() or waiter.exception() or waiter.result() is None:
            give_up(self, waiter)

    patch.setattr(Cohort, "give_up", forget)


def _drops_the_baton(patch: pytest.MonkeyPatch) -> None:
    """Pass the place on to a waiter who was cancelled in the same step."""
    hand_on = Cohort._hand_on

    def drop(self: Cohort, place: Any, now: float) -> bool:
        if self.waiters and self.waiters[0].done():
            self.waiters.popleft()
            self.dead -= 1
            return True
        return hand_on(self, place, now)

    patch.setattr(Cohort, "_hand_on", drop)


def _lingers_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Keep a place for the next local task until others come."""
    visit = Cohort.visit

    def keep(self: Cohort, place: Place, now: float) -> bool:
        place.idle_until = math.inf
        return visit(self, place, now)

    patch.setattr(Cohort, "visit", keep)


def _swallows(patch: pytest.MonkeyPatch) -> None:
    """Finish the clean-up and forget that somebody wanted to leave."""

    def swallowing(wait: Callable[..., Any]) -> Callable[..., Any]:
        async def swallow(*args: Any, **settings: Any) -> Any:
            try:
                return await wait(*args, **settings)
            except asyncio.CancelledError:
                return True

        return swallow

    for module in (block, hold, base):
        patch.setattr(module, "see_off", swallowing(module.see_off))
    patch.setattr(client, "finish", swallowing(client.finish))


def _keeps_its_cancel(patch: pytest.MonkeyPatch) -> None:
    """Cancel a block whose hold is lost, and never take that back."""

    async def keep(self: Any, error: BaseException | None) -> bool:
        return False

    patch.setattr(block.Block, "_take_back_cancel", keep)


def _keeps_late_winners(patch: pytest.MonkeyPatch) -> None:
    """Give up those who still race for a segment, and keep what others got meanwhile."""
    end = race.Race.end

    def keep(self: race.Race[Any]) -> None:
        self._runners = {waiter: of for waiter, of in self._runners.items() if race._own_of(waiter) is None}
        end(self)

    patch.setattr(race.Race, "end", keep)


def _gives_up_closing(patch: pytest.MonkeyPatch) -> None:
    async def try_once(step: Callable[[], Any]) -> None:
        await step()

    patch.setattr(engine, "insist", try_once)


def _puts_back_without_burying(patch: pytest.MonkeyPatch) -> None:
    put_back = Ledger.put_back

    def shallow(self: Ledger, order: str, buyer: str, now: float) -> Any:
        return put_back(self, order, buyer, now) if order in self._orders else Returned(0)

    patch.setattr(Ledger, "put_back", shallow)


def _takes_by_another_id(patch: pytest.MonkeyPatch) -> None:
    take = SegmentedStock.take

    def take_otherwise(self: SegmentedStock, *, buyer: str, order: str) -> Any:
        return take(self, buyer=buyer, order=f"{order}, again")

    patch.setattr(SegmentedStock, "take", take_otherwise)


MUTATIONS: dict[str, Mutation] = {
    "an order put back is not buried": Mutation(_puts_back_without_burying, Cell("take", "take late"), "orphan"),
    "an order is taken by another id": Mutation(_takes_by_another_id, Cell("take", "free"), "orphan"),
    "a leave in doubt does not bury": Mutation(_leaves_without_burying, Cell("block", "join late"), "orphan"),
    "a ticket in doubt is replaced": Mutation(
        _stands_in_the_place_of_one_in_doubt, Cell("block", "join late, company", "polling"), "orphan"
    ),
    "a grant that nobody took is forgotten": Mutation(_forgets_a_grant, Cell("block", "free"), "orphan"),
    "the baton is dropped": Mutation(_drops_the_baton, Cell("block", "local"), "a neighbour is stuck"),
    "a place lingers for ever": Mutation(_lingers_for_ever, Cell("block", "free", "lingering"), "orphan"),
    "a try that got in is forgotten": Mutation(
        lambda patch: patch.setattr(Cohort, "give_up_attempt", _nothing), Cell("try_acquire", "free"), "orphan"
    ),
    "a release swallows a cancel": Mutation(_swallows, Cell("release", "free"), "swallowed"),
    "a close swallows a cancel": Mutation(_swallows, Cell("aclose", "free"), "swallowed"),
    "a loss leaves its cancel behind": Mutation(_keeps_its_cancel, Cell("lost_block", "free"), "miscounted"),
    "a scope is not told apart": Mutation(
        lambda patch: patch.setattr(anyio.lowlevel, "checkpoint_if_cancelled", _nothing_later),
        Cell("reenter", "free"),
        "swallowed",
        (Plan("beat", ("loss", "scope"), (2,)),),
    ),
    "closing does not wait for the server": Mutation(
        lambda patch: patch.setattr(engine.Engine, "_leave_lines", _nothing_later),
        Cell("aclose", "leave lost"),
        "orphan",
    ),
    "closing is torn": Mutation(_gives_up_closing, Cell("aclose", "free"), "open", (Plan("inner", ("all",)),)),
    "half a multi-lock is kept": Mutation(
        lambda patch: patch.setattr(multi, "_give_back", lambda _: ([], None)),
        Cell("block", "elsewhere", kind="multi"),
        "orphan",
    ),
    "a race has two winners": Mutation(_keeps_late_winners, Cell("block", "elsewhere", kind="any segment"), "orphan"),
    "a latch is watched by nobody": Mutation(
        lambda patch: patch.setattr(Latches, "forget", _nothing), Cell("opened_too_late", "free"), "latches left"
    ),
}
