"""A stock spread over servers, under a hostile network: its histories fit one stock on one server, its books balance.

Each seed is one world: some segments, some clients, messages that overtake each other, are lost, or arrive when nobody
waits for them any more. The twins leave out one rule each, and some seed finds each of them.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from aiodlock._core.ledger import Ledger, _State
from aiodlock._core.routing import segment_of
from aiodlock._core.segment import Arrivals, draws, levelled
from aiodlock._core.spread import SpreadStockroom, _Survey
from aiodlock._core.stock import Audit, Entry, Move, Returned, SoldOut, Take, Taken, Terms, even
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.history import Operation, check_linearizable
from tests.property.spread import NearSegment, Network, Place, RemoteSegment

BUYERS = ("ann", "bob", "eve", "joe", "kim")


class OneStock:
    """The sequential model: one number, whether it is open, and of each order what it has or that it never will."""

    def first(self) -> tuple[Any, ...]:
        return 0, False, ()

    def step(self, state: tuple[Any, ...], operation: Operation) -> tuple[tuple[Any, ...], ...]:
        return tuple(after for after, result in self._steps(*state, operation) if self._fits(operation, result))

    def _fits(self, operation: Operation, result: Hashable) -> bool:
        return not operation.known or operation.result == result

    def _steps(self, left: int, is_open: bool, orders: tuple[Any, ...], operation: Operation) -> list[Any]:
        known, argument = dict(orders), operation.argument
        match operation.name, argument:
            case "load", int(quantity):
                return [((left, True, orders), False) if is_open else ((left + quantity, True, orders), True)]
            case "add", int(quantity):
                return [((left + quantity * is_open, is_open, orders), is_open)]
            case "close", None:
                return [((left, False, orders), None)]
            case "take", (order, int(quantity)):
                return self._take(left, is_open, known, order, quantity)
            case "put back", order:
                has = known.get(order, 0)
                has = 0 if has == "refused" else has
                after = (left + max(has, 0), is_open, _frozen(known | {order: -abs(has)}))
                return [(after, ("returned", abs(has)))]
        raise ValueError(operation)

    def _take(self, left: int, is_open: bool, known: dict[str, Any], order: str, quantity: int) -> list[Any]:
        same, has = (left, is_open, _frozen(known)), known.get(order)
        if has == "refused":
            return [(same, "sold out")]
        if has is not None:
            return [(same, "taken" if has > 0 else ("returned", -has))]
        if is_open and quantity <= left:
            return [((left - quantity, is_open, _frozen(known | {order: quantity})), "taken")]
        return [(same, "sold out"), ((left, is_open, _frozen(known | {order: "refused"})), "sold out")]


def _frozen(orders: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(orders.items()))


class World:
    """Some servers, some clients, and what was asked and answered."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.network = Network(self.random, faults=self.random.choice([0.0, 0.03, 0.08]))
        self.terms = Terms("k", self.random.randint(2, 4), outbox=True)
        self.places = [Place(self.terms, skew=self.random.randint(0, 40)) for _ in range(self.terms.segments)]
        # In some worlds everything happens; in the others each client has at most one article, of as many as clients.
        self.is_tight = bool(seed % 2)
        self.history: list[Operation] = []
        self.read: dict[tuple[str, str], Move] = {}
        self._numbers = itertools.count()

    def room(self) -> SpreadStockroom:
        return SpreadStockroom(self.terms, [RemoteSegment(self.network, place) for place in self.places])

    async def repeat(self, verb: Callable[[bool], Awaitable[Any]]) -> Any:
        """Ask until there is an answer; say from the second time on that it was asked before."""
        again = False
        while True:
            try:
                return await verb(again)
            except BackendUnavailableError:
                again = True

    async def record(self, who: int, name: str, argument: Any, verb: Callable[[bool], Awaitable[Any]]) -> None:
        """Note an operation that has an id: done once, at some time until it is answered."""
        called = self.network.now
        answer = await self.repeat(verb)
        self._note(who, name, argument, called, answer)

    async def record_each(self, who: int, name: str, argument: Any, verb: Callable[[bool], Awaitable[Any]]) -> None:
        """Note every attempt for itself: one without an answer may have been done, or be done later."""

        async def attempt(again: bool) -> None:
            called = self.network.now
            try:
                self._note(who, name, argument, called, await verb(again))
            except BackendUnavailableError:
                self.history.append(Operation("k", f"{who}", name, called, argument))
                raise

        await self.repeat(attempt)

    def _note(self, who: int, name: str, argument: Any, called: int, answer: Any) -> None:
        self.history.append(Operation("k", f"{who}", name, called, argument, _result(answer), self.network.now))

    async def shop(self, who: int, steps: int) -> None:
        room = self.room()
        for _ in range(steps):
            await self._step(room, who)

    async def _step(self, room: SpreadStockroom, who: int) -> None:
        buyer, operation = self.random.choice(BUYERS), f"p{next(self._numbers)}"
        order = f"{buyer}-{operation if self.is_tight else self.random.randrange(4)}"
        quantity = 1 if self.is_tight else 1 + sum(map(ord, order)) % 3  # an order is for one quantity
        home = segment_of(buyer, self.terms.segments)

        async def take(again: bool) -> Any:
            return (await room.take([Take(order, buyer, quantity, home, 0.0, again)]))[0]

        if self.is_tight and (mine := self._taken_by(who)):
            await self.record_each(who, "put back", mine[0], lambda again: room.put_back(mine[0], mine[0][:3]))
            return
        weights = [1, 0, 0, 0.2, 0, 0] if self.is_tight else [12, 3, 2, 1, 1, 0.5]
        match self.random.choices(["take", "put back", "add", "rebalance", "load", "close"], weights)[0]:
            case "take":
                await self.record_each(who, "take", (order, quantity), take)
            case "put back":
                await self.record_each(who, "put back", order, lambda again: room.put_back(order, buyer))
            case "rebalance":
                await self.repeat(lambda again: room.rebalance())
            case "close":
                await self.record_each(who, "close", None, lambda again: room.close())
            case "load" | "add" as name:
                verb = getattr(room, name)
                await self.record(who, name, quantity, lambda again: verb(quantity, operation))

    def _taken_by(self, who: int) -> list[str]:
        """Return the orders that this client took and did not put back."""
        mine = [one for one in self.history if one.who == f"{who}"]
        back = {one.argument for one in mine if one.name == "put back"}
        return [one.argument[0] for one in mine if one.result == "taken" and one.argument[0] not in back]  # type: ignore[index]

    async def relay(self, rounds: int) -> None:
        """Read all outboxes so many times, and then until there is nothing more."""
        room, done, entries = self.room(), "", list[Entry]()
        while rounds > 0 or entries:
            entries = await self.repeat(lambda again, done=done: room.outbox(done, 2))  # type: ignore[misc]
            for entry in entries:
                self.read |= {(one.order, one.move.value): one.move for one in entry.movements}
                done = entry.id
            rounds -= 1

    async def run(self) -> None:
        room = self.room()
        await self.network.run(self.record(9, "load", 3, lambda again: room.load(3, "first")))
        await self.network.run(*(self.shop(who, 12 if self.is_tight else 6) for who in range(3)), self.relay(6))
        self.network.faults = 0.0
        await self.network.run(self.relay(1))

    async def judge(self) -> list[str]:
        found = [str(one) for one in check_linearizable(self.history, model=OneStock())]
        audits: list[Any] = []

        async def audit() -> None:
            audits.append(await self.room().audit())

        await self.network.run(audit())
        found += [] if audits[0].is_balanced else [f"not balanced: {audits[0]}"]
        written = [one for place in self.places for entry in place.books.written for one in entry.movements]
        found += [f"never read: {one}" for one in written if (one.order, one.move.value) not in self.read]
        told = {one.argument[0] for one in self.history if one.result == "taken"}  # type: ignore[index]
        has = {
            order for place in self.places for order, one in place.books._orders.items() if one.state is _State.TAKEN
        }
        return found + [f"taken, and nobody was told: {order}" for order in has - told]


def _result(answer: Any) -> Hashable:
    match answer:
        case Taken():
            return "taken"
        case SoldOut():
            return "sold out"
        case Returned(quantity):
            return "returned", quantity
        case bool():
            return answer
    return None


async def _verdict(seed: int) -> list[str]:
    world = World(seed)
    await world.run()
    return await world.judge()


def verdict(seed: int) -> list[str]:
    return asyncio.run(_verdict(seed))


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.long) for part in range(2, 40))])
def test_every_history_fits_one_stock_on_one_server(part: int) -> None:
    """Whatever is lost, late or doubled: each order ends once, sold out is true, everything written is read."""
    for seed in range(part * 25, part * 25 + 25):
        assert verdict(seed) == [], f"seed {seed}"


# --- one by one --------------------------------------------------------------------------------------------


def near(count: int, **terms: bool) -> tuple[SpreadStockroom, list[Place], list[NearSegment]]:
    """Return a stock whose segments answer at once."""
    agreed = Terms("k", count, **terms)
    places = [Place(agreed) for _ in range(count)]
    segments = [NearSegment(place) for place in places]
    return SpreadStockroom(agreed, segments), places, segments


def take_of(buyer: str, order: str, quantity: int = 1, *, home: int, again: bool = False) -> Take:
    return Take(order, buyer, quantity, home, 0.0, again)


async def sell_while_somebody_looks() -> Any:
    """One article goes back to a segment that was looked at, another is sold in one that will be: never sold out."""
    room, places, segments = near(3)
    await room.load(3, "op")  # one in each
    for home in (0, 1):
        await room.take([take_of("any", f"o{home}", home=home)])

    def change() -> None:
        places[1].put_back("o1", "any")
        places[2].take([take_of("eve", "o2", home=2)], Arrivals(0))

    segments[2].before["look"] = change
    (sale,) = await room.take([take_of("ann", "o3", home=0)])
    return sale


async def meet_a_refusal_late() -> Any:
    """A refused order was sent before; stock comes, and then the copy that was on its way."""
    room, places, _ = near(2)
    await room.load(0, "op")
    take = take_of("ann", "o1", home=0, again=True)
    assert await room.take([take]) == [SoldOut(0)]
    await room.add(4, "op2")
    (sale,) = places[0].take([take], Arrivals(0))
    return sale


def test_sold_out_means_at_one_instant() -> None:
    """What came in between two looks makes all of them be looked at again."""
    assert asyncio.run(sell_while_somebody_looks()) == Taken(0, 0)


def test_a_refusal_in_doubt_is_remembered_where_the_order_would_live() -> None:
    """Whoever was told no has nothing."""
    assert asyncio.run(meet_a_refusal_late()) == SoldOut(0)


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_one_by_one_it_answers_as_one_server_does(seed: int, once: bool) -> None:
    """The same verbs, one after the other, on a ledger that has all segments: the same answers, the same books."""
    asyncio.run(_compare(random.Random(seed), once=once))


async def _compare(chance: random.Random, *, once: bool) -> None:
    count = chance.randint(2, 5)
    ledger = Ledger(Terms("k", count, once_per_buyer=once))
    room, _, _ = near(count, once_per_buyer=once)
    for number in range(60):
        buyer = chance.choice(BUYERS)
        order, quantity, home = f"{buyer}{chance.randrange(5)}", chance.randint(1, 4), segment_of(buyer, count)
        take = take_of(buyer, order, quantity, home=home, again=chance.random() < 0.3)
        match chance.choices(["take", "put back", "add", "load", "close", "rebalance"], [8, 3, 2, 2, 0.5, 1])[0]:
            case "take":
                expected, (found,) = ledger.take([take], 0.0)[0], await room.take([take])
                assert type(found) is type(expected)
                assert isinstance(found, Taken) or found == expected
            case "put back":
                assert await room.put_back(order, buyer) == ledger.put_back(order, buyer, 0.0)
            case "add" | "load" as verb:
                arguments = (quantity, f"op{number}")
                assert await getattr(room, verb)(*arguments) == getattr(ledger, verb)(*arguments, 0.0)
            case "close":
                assert await room.close() is not None
                ledger.close(0.0)
            case "rebalance":
                assert await room.rebalance() == ledger.rebalance(0.0)
    mine, theirs = await room.audit(), ledger.audit(0.0)
    assert isinstance(mine, Audit)
    assert mine.is_balanced
    sums = [(one.loaded, one.accepted, one.returned, one.orders, one.left) for one in (mine, theirs)]
    assert sums[0] == sums[1]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.dictionaries(st.integers(0, 5), st.integers(1, 12)))
def test_what_is_drawn_is_there(left: list[int], wanted: dict[int, int]) -> None:
    """Nobody draws more than there is, and the first gets all that it wants if all together have it."""
    wanted = {target % len(left): quantity for target, quantity in wanted.items()}
    rest = list(left)
    for source, target, quantity in draws(left, wanted):
        assert source != target
        rest[source] -= quantity
    assert min(rest) >= 0
    if wanted:
        first = next(iter(wanted))
        came = sum(one.quantity for one in draws(left, wanted) if one.target == first)
        assert left[first] + came >= min(wanted[first], sum(left))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_levelled_is_even(left: list[int]) -> None:
    after = list(left)
    for source, target, quantity in levelled(left):
        after[source] -= quantity
        after[target] += quantity
    assert after == list(even(sum(left), len(left)))


# --- twins -------------------------------------------------------------------------------------------------


def sold_out_is_believed_at_the_first_look(patch: pytest.MonkeyPatch) -> None:
    """No change number."""
    patch.setattr(_Survey, "is_as", lambda self, before: True)


def what_is_on_its_way_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Survey, "on_their_way", 0)


def arrivals_are_added_as_often_as_they_are_told(patch: pytest.MonkeyPatch) -> None:
    arrive = Place.arrive

    def forget_first(self: Place, arrivals: Arrivals) -> Any:
        for source, _ in arrivals.sent:
            self.arrived.pop(source, None)
        return arrive(self, arrivals)

    patch.setattr(Place, "arrive", forget_first)


def a_refusal_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Place, "refuse", lambda self, refusals: [refusal for _, refusal in refusals])


def nobody_is_told_that_the_sale_is_closed(patch: pytest.MonkeyPatch) -> None:
    """But segment 0."""
    look_around = SpreadStockroom._look_around

    async def look_on(self: SpreadStockroom) -> Any:
        looks = await self._look()
        return await look_around(self) if looks[0].is_open else looks

    patch.setattr(SpreadStockroom, "_look_around", look_on)


def an_outbox_promises_nothing(patch: pytest.MonkeyPatch) -> None:
    read = Place.read

    def only_read(self: Place, done: str, most: int, until: int) -> Any:
        before = self.books.instant
        page = read(self, done, most, until)
        self.books.instant = before
        return page

    patch.setattr(Place, "read", only_read)


@pytest.mark.parametrize(
    ("twin", "first"),
    [
        (what_is_on_its_way_is_not_counted, 28),
        (arrivals_are_added_as_often_as_they_are_told, 0),
        (nobody_is_told_that_the_sale_is_closed, 14),
        (an_outbox_promises_nothing, 3),
    ],
)
def test_a_twin_is_found(
    monkeypatch: pytest.MonkeyPatch, twin: Callable[[pytest.MonkeyPatch], None], first: int
) -> None:
    """Each rule is needed: without it some seed shows a violation, found here from one near *first* on."""
    twin(monkeypatch)
    assert any(verdict(seed) for seed in range(first, first + 400, 2))


def test_twins_that_believe_or_forget_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the change number a look is believed that was never true; without memory a late copy takes."""
    sold_out_is_believed_at_the_first_look(monkeypatch)
    assert isinstance(asyncio.run(sell_while_somebody_looks()), SoldOut)
    a_refusal_is_not_remembered(monkeypatch)
    assert isinstance(asyncio.run(meet_a_refusal_late()), Taken)
