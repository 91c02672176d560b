"""The ledger against a twenty-line model: any orders, re-sent, put back, confirmed and expired, in any order."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiodlock._core.ledger import Ledger
from aiodlock._core.stock import AlreadyTaken, Move, Movement, Returned, SoldOut, Take, Taken, Terms, even

MEMORY = 1000.0  # longer than all reservations of one run together, so that only its own rule forgets
ORDERS = st.sampled_from([f"o{number}" for number in range(6)])
BUYERS = st.sampled_from(["ann", "bob", "eve"])
QUANTITIES = st.integers(1, 4)


class Model:
    """One number, and for each order what it has or that it never will."""

    def __init__(self, *, once: bool) -> None:
        self.once, self.left, self.is_open = once, 0, False
        self.has: dict[str, tuple[str, int]] = {}
        self.gone: dict[str, object] = {}

    def take(self, take: Take) -> object:
        if take.order in self.gone:
            return self.gone[take.order]
        if order := self.has.get(take.order):
            return Taken if order == (take.buyer, take.quantity) else AlreadyTaken(take.order, order[0])
        others = [order for order, (buyer, _) in self.has.items() if buyer == take.buyer]
        if self.once and others:
            answer: object = AlreadyTaken(others[0], take.buyer)
        elif self.is_open and take.quantity <= self.left:
            self.left -= take.quantity
            self.has[take.order] = take.buyer, take.quantity
            return Taken
        else:
            answer = SoldOut(self.left)
        if take.again:
            self.gone[take.order] = answer
        return answer

    def put_back(self, order: str, buyer: str) -> object:
        if order in self.has and self.has[order][0] != buyer:
            return AlreadyTaken(order, self.has[order][0])
        if order in self.has:
            quantity = self.has.pop(order)[1]
            self.left += quantity
            self.gone[order] = Returned(quantity)
        elif not isinstance(self.gone.get(order), Returned):
            self.gone[order] = Returned(0)
        return self.gone[order]


class Sales(RuleBasedStateMachine):
    """Time stands still but for the hours that let everything due happen."""

    @rule(segments=st.integers(1, 5), once=st.booleans())
    @precondition(lambda self: not hasattr(self, "ledger"))
    def begin(self, segments: int, once: bool) -> None:
        self.now = 0.0
        self.ledger = Ledger(Terms("k", segments, MEMORY, once_per_buyer=once, outbox=True))
        self.model = Model(once=once)
        self.reserved: set[str] = set()
        self.operations = 0
        self.written: list[Movement] = []

    def _begun(self) -> bool:
        return hasattr(self, "ledger")

    @precondition(_begun)
    @rule(quantity=st.integers(0, 12), again=st.booleans())
    def load(self, quantity: int, again: bool) -> None:
        self.operations += 1
        for _ in range(1 + again):
            assert self.ledger.load(quantity, f"op{self.operations}", self.now) is not self.model.is_open or again
        if not self.model.is_open:
            self.model.is_open = True
            self.model.left += quantity

    @precondition(_begun)
    @rule(quantity=QUANTITIES, again=st.booleans())
    def add(self, quantity: int, again: bool) -> None:
        self.operations += 1
        for _ in range(1 + again):
            assert self.ledger.add(quantity, f"op{self.operations}", self.now) is self.model.is_open
        self.model.left += quantity * self.model.is_open

    @precondition(_begun)
    @rule(
        order=ORDERS, buyer=BUYERS, quantity=QUANTITIES, home=st.integers(0, 4), hold=st.booleans(), again=st.booleans()
    )
    def take(self, order: str, buyer: str, quantity: int, home: int, hold: bool, again: bool) -> None:
        take = Take(order, buyer, quantity, home % self.ledger.terms.segments, 10.0 * hold, again)
        is_new = order not in self.model.has
        expected = self.model.take(take)
        (answer,) = self.ledger.take([take], self.now)
        assert type(answer) is expected if expected is Taken else answer == expected
        if expected is Taken and is_new and hold:
            self.reserved.add(order)
        if expected is Taken and not hold:
            self.reserved.discard(order)
        assert self.ledger.take([take], self.now) == [answer]

    @precondition(_begun)
    @rule(order=ORDERS, buyer=BUYERS)
    def put_back(self, order: str, buyer: str) -> None:
        expected = self.model.put_back(order, buyer)
        assert self.ledger.put_back(order, buyer, self.now) == expected
        self.reserved &= set(self.model.has)

    @precondition(_begun)
    @rule(order=ORDERS, buyer=BUYERS)
    def confirm(self, order: str, buyer: str) -> None:
        answer, (owner, _) = self.ledger.confirm(order, buyer, self.now), self.model.has.get(order, ("", 0))
        assert isinstance(answer, Taken) == (owner == buyer)
        assert isinstance(answer, AlreadyTaken) == (owner not in {"", buyer})
        if isinstance(answer, Taken):
            self.reserved.discard(order)

    @precondition(_begun)
    @rule()
    def rebalance(self) -> None:
        left = self.ledger.rebalance(self.now).segments
        assert max(left) - min(left) <= 1

    @precondition(_begun)
    @rule()
    def close(self) -> None:
        assert self.ledger.close(self.now).total == self.model.left
        self.model.is_open = False

    @precondition(_begun)
    @rule()
    def let_reservations_end(self) -> None:
        self.now += 10.0
        for order in self.reserved:
            self.model.put_back(order, self.model.has[order][0])
        self.reserved.clear()

    @precondition(_begun)
    @rule()
    def let_everything_be_forgotten(self) -> None:
        for _ in range(2):  # what goes back is remembered from then on
            self.now += MEMORY
            self.ledger.remaining(self.now)
        for order in self.reserved:
            self.model.put_back(order, self.model.has[order][0])
        self.reserved.clear()
        self.model.has.clear()
        self.model.gone.clear()

    @precondition(_begun)
    @invariant()
    def the_books_balance(self) -> None:
        audit = self.ledger.audit(self.now)
        assert audit.is_balanced, audit
        assert audit.left == self.model.left
        entries = self.ledger.outbox("", 1000, self.now)
        self.written += [movement for entry in entries for movement in entry.movements]
        if entries:
            self.ledger.outbox(entries[-1].id, 0, self.now)
        signs = {Move.TAKEN: 1, Move.RESERVED: 1, Move.CONFIRMED: 0, Move.RETURNED: -1}
        assert sum(signs[one.move] * one.quantity for one in self.written) == audit.accepted - audit.returned


TestSales: Any = Sales.TestCase
TestSales.settings = settings(max_examples=150, stateful_step_count=40)


@given(st.integers(0, 100), st.integers(1, 9), st.integers(0, 8))
def test_shares_differ_by_one_at_most(quantity: int, segments: int, first: int) -> None:
    shares = list(even(quantity, segments, first=first % segments))
    assert sum(shares) == quantity
    assert max(shares) - min(shares) <= 1
    assert shares[first % segments] == max(shares)


def test_an_addition_is_told_as_done_also_when_the_sale_was_closed_meanwhile() -> None:
    """Its answer was lost, it is asked again, and somebody has closed: it is in the books all the same."""
    ledger = Ledger(Terms("k"))
    ledger.load(1, "op1", 0.0)
    assert ledger.add(2, "op2", 0.0)
    ledger.close(0.0)
    assert ledger.add(2, "op2", 0.0)
    assert not ledger.add(2, "op3", 0.0)
    assert ledger.audit(0.0).loaded == 3
