"""A stock as plain synchronous code: the reference that the servers' scripts are compared with.

`Ledger` is what a server keeps of one key. Every method is one atomic step at the instant *now*. What is due is done
first: a reservation whose time is over goes back, an order whose time of memory is over is forgotten.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import math
from collections import deque
from collections.abc import Sequence

from aiodlock._core.stock import (
    AlreadyTaken,
    Audit,
    Entry,
    Move,
    Movement,
    Remaining,
    Returned,
    Sale,
    SoldOut,
    Take,
    Taken,
    Terms,
    even,
)

__all__ = ["Ledger"]


class _State(enum.Enum):
    TAKEN = "taken"
    RESERVED = "reserved"
    RETURNED = "returned"
    REFUSED = "refused"


_HAS = frozenset({_State.TAKEN, _State.RESERVED})


class _Order:
    __slots__ = ("answer", "buyer", "ends", "quantity", "segment", "state")

    def __init__(self, state: _State, buyer: str, quantity: int, segment: int, answer: Sale) -> None:
        self.state = state
        self.buyer = buyer
        self.quantity = quantity
        self.segment = segment
        self.answer = answer
        self.ends = 0.0  # when it goes back if it is reserved, else when it is forgotten


class Ledger:
    """The stock of one key, on the terms of its first use."""

    def __init__(self, terms: Terms) -> None:
        self._outbox: deque[Entry] = deque()
        self._numbers = itertools.count(1)
        self.begin(terms)

    def begin(self, terms: Terms) -> None:
        """Know nothing but what stands in the outbox."""
        self.terms = terms
        self.is_open = False
        self.left = [0] * terms.segments
        self.loaded = self.accepted = self.returned = self.forgotten = 0
        self._orders: dict[str, _Order] = {}
        self._buyers: dict[str, str] = {}
        self._operations: dict[str, float] = {}
        self._due: list[tuple[float, int, str]] = []  # a heap; entries that no longer hold are skipped
        self._ends = math.inf  # of a closed one

    def is_over(self, now: float) -> bool:
        """Whether it is closed, and nothing of it is remembered any more: then another may begin."""
        self._do_due(now)
        return not self.is_open and self._ends <= now

    # --- verbs -------------------------------------------------------------------------------------------------

    def load(self, quantity: int, operation: str, now: float) -> bool:
        """Open the sale with *quantity* more, unless it is open; return whether *operation* did."""
        self._do_due(now)
        if operation in self._operations:
            return True
        if self.is_open:
            return False
        self.is_open = True
        self._put_in(quantity, operation, now)
        return True

    def add(self, quantity: int, operation: str, now: float) -> bool:
        """Add to an open sale, once per *operation*; return whether it is there."""
        self._do_due(now)
        if self.is_open and operation not in self._operations:
            self._put_in(quantity, operation, now)
        return operation in self._operations

    def take(self, takes: Sequence[Take], now: float) -> list[Sale]:
        """Answer each order; those accepted are one entry of the outbox."""
        self._do_due(now)
        moved: list[Movement] = []
        answers = [self._take(one, now, moved) for one in takes]
        self._write_out(moved)
        return answers

    def confirm(self, order: str, buyer: str, now: float) -> Taken | Returned | AlreadyTaken:
        """Keep a reservation of *buyer* for good; return what the order has."""
        self._do_due(now)
        record = self._orders.get(order)
        if record is None or record.state not in _HAS:
            return Returned(record.quantity if record else 0)
        if record.buyer != buyer:
            return AlreadyTaken(order, record.buyer)
        moved: list[Movement] = []
        self._keep(order, record, now, moved)
        self._write_out(moved)
        assert isinstance(record.answer, Taken)
        return record.answer

    def put_back(self, order: str, buyer: str, now: float) -> Returned | AlreadyTaken:
        """Give back what the order has; one that is not there is buried, and refused when it comes."""
        self._do_due(now)
        record = self._orders.get(order)
        if record is not None and record.state in _HAS:
            if record.buyer != buyer:
                return AlreadyTaken(order, record.buyer)
            self._give_back(order, record, now)
        elif record is None or record.state is _State.REFUSED:
            record = self._orders[order] = _Order(_State.RETURNED, buyer, 0, 0, Returned())
            self._plan(order, now + self.terms.memory)
        return Returned(record.quantity)

    def remaining(self, now: float) -> Remaining:
        self._do_due(now)
        return Remaining(tuple(self.left))

    def rebalance(self, now: float) -> Remaining:
        """Spread what is left evenly."""
        self._do_due(now)
        self.left = list(even(sum(self.left), self.terms.segments))
        return Remaining(tuple(self.left))

    def audit(self, now: float) -> Audit:
        self._do_due(now)
        orders = sum(record.quantity for record in self._orders.values() if record.state in _HAS)
        sums = (self.loaded, self.accepted, self.returned, self.forgotten, orders)
        return Audit(*sums, tuple(self.left), outbox=len(self._outbox))

    def close(self, now: float) -> Remaining:
        """Sell nothing more; what was taken can still be confirmed and put back."""
        self._do_due(now)
        self.is_open, self._ends = False, now + 2 * self.terms.memory
        return Remaining(tuple(self.left))

    def outbox(self, done: str, most: int, now: float) -> list[Entry]:
        """Drop the entries up to the id *done*, and return the next ones."""
        self._do_due(now)
        while self._outbox and done and int(self._outbox[0].id) <= int(done):
            self._outbox.popleft()
        return list(itertools.islice(self._outbox, most))

    # --- inside a verb -----------------------------------------------------------------------------------------

    def _put_in(self, quantity: int, operation: str, now: float) -> None:
        shares = even(quantity, self.terms.segments, first=self.loaded % self.terms.segments)
        self.left = [left + share for left, share in zip(self.left, shares, strict=True)]
        self.loaded += quantity
        self._operations[operation] = now + self.terms.memory

    def _take(self, take: Take, now: float, moved: list[Movement]) -> Sale:
        if record := self._orders.get(take.order):
            if record.state not in _HAS:
                return record.answer
            if (record.buyer, record.quantity) != (take.buyer, take.quantity):
                return AlreadyTaken(take.order, record.buyer)
            if not take.hold_for:
                self._keep(take.order, record, now, moved)
            return record.answer
        if self.terms.once_per_buyer and (other := self._buyers.get(take.buyer)):
            return self._refuse(take, AlreadyTaken(other, take.buyer), now)
        if not self.is_open or take.quantity > sum(self.left):
            return self._refuse(take, SoldOut(sum(self.left)), now)
        segment = self._find(take.home, take.quantity)
        self.left[segment] -= take.quantity
        self.accepted += take.quantity
        state, move = (_State.RESERVED, Move.RESERVED) if take.hold_for else (_State.TAKEN, Move.TAKEN)
        record = _Order(state, take.buyer, take.quantity, segment, Taken(segment, self.left[segment]))
        self._orders[take.order] = record
        if self.terms.once_per_buyer:
            self._buyers[take.buyer] = take.order
        self._plan(take.order, now + (take.hold_for or self.terms.memory))
        moved.append(_movement(move, take.order, record))
        return record.answer

    def _keep(self, order: str, record: _Order, now: float, moved: list[Movement]) -> None:
        """Make a reservation one that stays."""
        if record.state is _State.RESERVED:
            record.state = _State.TAKEN
            self._plan(order, now + self.terms.memory)
            moved.append(_movement(Move.CONFIRMED, order, record))

    def _refuse(self, take: Take, answer: SoldOut | AlreadyTaken, now: float) -> Sale:
        """Refuse; where another copy of the wish may still be on its way, so that it meets the same."""
        if take.again:
            self._orders[take.order] = _Order(_State.REFUSED, take.buyer, 0, 0, answer)
            self._plan(take.order, now + self.terms.memory)
        return answer

    def _find(self, home: int, quantity: int) -> int:
        """Return a segment that has enough: home, the next one around that has, or home filled up from the others."""
        around = [(home + step) % self.terms.segments for step in range(self.terms.segments)]
        for segment in around:
            if self.left[segment] >= quantity:
                return segment
        for other in around[1:]:
            moved = min(self.left[other], quantity - self.left[home])
            self.left[other] -= moved
            self.left[home] += moved
        return home

    def _give_back(self, order: str, record: _Order, now: float) -> None:
        record.state, record.answer = _State.RETURNED, Returned(record.quantity)
        self.left[record.segment] += record.quantity
        self.returned += record.quantity
        self._free_buyer(order, record)
        self._plan(order, now + self.terms.memory)
        self._write_out([_movement(Move.RETURNED, order, record)])

    def _free_buyer(self, order: str, record: _Order) -> None:
        if self._buyers.get(record.buyer) == order:
            del self._buyers[record.buyer]

    def _plan(self, order: str, ends: float) -> None:
        self._orders[order].ends = ends
        if not self.is_open:
            self._ends = ends + self.terms.memory
        heapq.heappush(self._due, (ends, next(self._numbers), order))

    def _do_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            ends, _, order = heapq.heappop(self._due)
            record = self._orders.get(order)
            if record is None or record.ends != ends:
                continue
            if record.state is _State.RESERVED:
                self._give_back(order, record, now)
                continue
            if record.state is _State.TAKEN:
                self.forgotten += record.quantity
            self._free_buyer(order, record)
            del self._orders[order]
        for operation in list(itertools.takewhile(lambda one: self._operations[one] <= now, self._operations)):
            del self._operations[operation]

    def _write_out(self, moved: Sequence[Movement]) -> None:
        if moved and self.terms.outbox:
            self._outbox.append(Entry(str(next(self._numbers)), tuple(moved)))


def _movement(move: Move, order: str, record: _Order) -> Movement:
    return Movement(move, order, record.buyer, record.quantity, record.segment)
