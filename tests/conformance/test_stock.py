"""The checks of stock over every backend that keeps one, and the broken twins that each of them must catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiodlock._core.ledger import Ledger
from aiodlock._core.stock import Movement, Remaining, Returned, Sale, SoldOut, Take, Taken
from aiodlock.backends.base import Stocking
from aiodlock.backends.memory import MemoryStockroom
from aiodlock.inventory import checkout
from aiodlock.inventory.checkout import Checkout
from aiodlock.testing.conformance import STOCK_CHECKS, Check, MemoryWorld, World, run
from tests.conformance.conftest import WORLDS
from tests.conformance.test_conformance import EXPECTED
from tests.conformance.twins import Break

BY_NAME = {check.name: check for check in STOCK_CHECKS}
STOCKED = [name for name, capabilities in EXPECTED.items() if capabilities.stock]


@pytest.mark.parametrize("check", STOCK_CHECKS, ids=repr)
@pytest.mark.parametrize("backend", STOCKED)
def test_conformance(request: pytest.FixtureRequest, backend: str, check: Check) -> None:
    """Every check, on every backend that says it keeps stock; none is left out."""
    run(check, WORLDS[backend](request))


def test_a_backend_keeps_stock_if_it_says_so(world: World) -> None:
    """The role and what the capabilities say agree."""
    found: list[bool] = []

    async def ask(world: World) -> None:
        backend = world.connect().backend
        found.append(isinstance(backend, Stocking) == backend.capabilities.stock)

    run(Check(ask), world)
    assert found == [True]


# --- twins -------------------------------------------------------------------------------------------------

TWINS: dict[str, tuple[Break, tuple[str, ...]]] = {}


def caught_by(*checks: str) -> Any:
    def register(twin: Break) -> Break:
        TWINS[twin.__name__] = (twin, checks)
        return twin

    return register


def each(patch: pytest.MonkeyPatch, change: Any) -> None:
    """Take each order as `change(ledger, take, the right way)` says."""
    right = Ledger._take

    def wrong(self: Ledger, take: Take, now: float, moved: list[Movement]) -> Sale:
        return change(self, take, lambda one: right(self, one, now, moved))

    patch.setattr(Ledger, "_take", wrong)


@caught_by(
    "an_order_is_taken_once",
    "a_take_whose_answer_is_lost_is_one_order",
    "a_take_around_its_put_back_takes_nothing",
    "what_goes_back_is_sold_again",
    "a_refusal_in_doubt_is_kept",
    "a_reservation_goes_back_after_its_time",
)
def a_plain_decrement(patch: pytest.MonkeyPatch) -> None:
    """What a script does that knows no orders; asked again, it takes again."""

    def decrement(ledger: Ledger, take: Take, right: Any) -> Sale:
        ledger._orders.pop(take.order, None)
        return right(take)

    each(patch, decrement)


@caught_by("everything_is_sold_and_nothing_twice", "histories_of_many_clients_are_linearizable", "stock_is_added_once")
def a_buyer_is_served_from_his_segment_only(patch: pytest.MonkeyPatch) -> None:
    def only_home(ledger: Ledger, take: Take, right: Any) -> Sale:
        return right(take) if ledger.left[take.home] >= take.quantity else SoldOut(0)

    each(patch, only_home)


@caught_by("an_order_of_many_is_filled_from_all_segments")
def segments_are_not_put_together(patch: pytest.MonkeyPatch) -> None:
    def one_of_them(ledger: Ledger, take: Take, right: Any) -> Sale:
        return right(take) if max(ledger.left) >= take.quantity else SoldOut(0)

    each(patch, one_of_them)


@caught_by("everything_is_sold_and_nothing_twice", "histories_of_many_clients_are_linearizable")
def one_more_is_sold(patch: pytest.MonkeyPatch) -> None:
    def oversell(ledger: Ledger, take: Take, right: Any) -> Sale:
        sale = right(take)
        return Taken(0, 0) if sale == SoldOut(0) else sale

    each(patch, oversell)


@caught_by("who_comes_first_is_served_first")
def the_last_is_the_first(patch: pytest.MonkeyPatch) -> None:
    take = Ledger.take
    patch.setattr(Ledger, "take", lambda self, takes, now: take(self, takes[::-1], now)[::-1])


@caught_by("nobody_confirms_the_order_of_another")
def anybody_may_confirm(patch: pytest.MonkeyPatch) -> None:
    confirm = Ledger.confirm

    def whoever(self: Ledger, order: str, buyer: str, now: float) -> Any:
        return confirm(self, order, self._orders[order].buyer if order in self._orders else buyer, now)

    patch.setattr(Ledger, "confirm", whoever)


@caught_by("a_reservation_that_is_taken_stays")
def what_is_reserved_stays_reserved(patch: pytest.MonkeyPatch) -> None:
    def as_before(ledger: Ledger, take: Take, right: Any) -> Sale:
        known = take.order in ledger._orders
        return right(take._replace(hold_for=1.0)) if known else right(take)

    each(patch, as_before)


@caught_by("a_closed_sale_is_forgotten_and_another_begins")
def a_closed_sale_is_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "is_over", lambda self, now: False)


@caught_by("one_order_per_buyer")
def buyers_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    def forget_buyers(ledger: Ledger, take: Take, right: Any) -> Sale:
        ledger._buyers.clear()
        return right(take)

    each(patch, forget_buyers)


@caught_by("a_reservation_goes_back_after_its_time")
def reservations_are_kept(patch: pytest.MonkeyPatch) -> None:
    each(patch, lambda ledger, take, right: right(take._replace(hold_for=0.0)))


@caught_by("the_outbox_tells_every_movement_in_order")
def reservations_are_not_told(patch: pytest.MonkeyPatch) -> None:
    write_out = Ledger._write_out

    def skip(self: Ledger, moved: Sequence[Movement]) -> None:
        write_out(self, [one for one in moved if one.move.value != "reserved"])

    patch.setattr(Ledger, "_write_out", skip)


@caught_by("a_take_around_its_put_back_takes_nothing", "the_outbox_tells_every_movement_in_order")
def nothing_is_buried(patch: pytest.MonkeyPatch) -> None:
    put_back = Ledger.put_back

    def shallow(self: Ledger, order: str, buyer: str, now: float) -> Any:
        return put_back(self, order, buyer, now) if order in self._orders else Returned(0)

    patch.setattr(Ledger, "put_back", shallow)


@caught_by("what_goes_back_is_sold_again", "an_order_of_many_is_filled_from_all_segments")
def what_is_put_back_is_lost(patch: pytest.MonkeyPatch) -> None:
    put_back = Ledger.put_back

    def lose(self: Ledger, order: str, buyer: str, now: float) -> Any:
        left = list(self.left)
        answer = put_back(self, order, buyer, now)
        self.left = left
        return answer

    patch.setattr(Ledger, "put_back", lose)


@caught_by("a_take_whose_answer_is_lost_is_one_order")
def adding_has_no_id(patch: pytest.MonkeyPatch) -> None:
    put_in = Ledger._put_in
    patch.setattr(Ledger, "_put_in", lambda self, quantity, operation, now: put_in(self, quantity, "", now - 1e6))


@caught_by("stock_is_added_once", "a_sale_is_opened_once_and_closed")
def a_sale_is_always_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "is_open", property(lambda self: True, lambda self, value: None), raising=False)


@caught_by("a_sale_is_opened_once_and_closed")
def everybody_loads(patch: pytest.MonkeyPatch) -> None:
    load = Ledger.load

    def again(self: Ledger, quantity: int, operation: str, now: float) -> bool:
        self.is_open = False
        return load(self, quantity, operation, now)

    patch.setattr(Ledger, "load", again)


@caught_by("stock_is_added_once")
def rebalancing_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "rebalance", lambda self, now: Remaining(tuple(self.left)))


@caught_by("a_stock_has_one_number_of_segments")
def terms_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    def act(self: MemoryStockroom, act: Any) -> Any:
        server = self._backend.server
        return act(server.ledger(self._terms), server.clock.now())

    patch.setattr(MemoryStockroom, "_act", act)


@caught_by("orders_are_remembered_as_long_as_asked")
def orders_are_remembered_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "_do_due", lambda self, now: None)


@caught_by("bad_orders_are_refused_before_anything_is_sent")
def anything_is_an_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiodlock.inventory.stock.check_key", lambda key, what: key)


@caught_by("a_refusal_in_doubt_is_kept")
def sending_again_is_not_told(patch: pytest.MonkeyPatch) -> None:
    each(patch, lambda ledger, take, right: right(take._replace(again=False)))


@caught_by("a_server_that_is_down_is_told_to_who_takes")
def it_is_patient_for_ever(patch: pytest.MonkeyPatch) -> None:
    init = Checkout.__init__

    def wait(self: Checkout, *arguments: Any, patience: float) -> None:
        init(self, *arguments, patience=100.0)

    patch.setattr(checkout.Checkout, "__init__", wait)


@pytest.mark.parametrize(("twin", "check"), [(twin, check) for twin, (_, checks) in TWINS.items() for check in checks])
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
