"""Stock: never oversold, never undersold, an order exactly once whatever is lost on the way."""

from __future__ import annotations

import asyncio

from aiodlock._core.stock import AlreadyTaken, Differs, Move, Returned, Sale, SoldOut, Taken
from aiodlock.backends.base import Stocking
from aiodlock.errors import BackendUnavailableError, ConfigurationError, InvalidKeyError
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.testing.conformance.check import check, raises
from aiodlock.testing.conformance.world import World
from aiodlock.testing.history import Operation, Stock, check_conservation, check_linearizable

__all__ = [
    "a_closed_sale_is_forgotten_and_another_begins",
    "a_refusal_in_doubt_is_kept",
    "a_reservation_goes_back_after_its_time",
    "a_reservation_that_is_taken_stays",
    "a_sale_is_opened_once_and_closed",
    "a_server_that_is_down_is_told_to_who_takes",
    "a_stock_has_one_number_of_segments",
    "a_take_around_its_put_back_takes_nothing",
    "a_take_whose_answer_is_lost_is_one_order",
    "an_order_is_taken_once",
    "an_order_of_many_is_filled_from_all_segments",
    "bad_orders_are_refused_before_anything_is_sent",
    "everything_is_sold_and_nothing_twice",
    "histories_of_many_clients_are_linearizable",
    "nobody_confirms_the_order_of_another",
    "one_order_per_buyer",
    "orders_are_remembered_as_long_as_asked",
    "stock_is_added_once",
    "the_outbox_tells_every_movement_in_order",
    "what_goes_back_is_sold_again",
    "who_comes_first_is_served_first",
]

_MEMORY = 60.0
_HOLD = 3  # times a lease: what has to be done before a reservation ends takes several calls


async def _stock_of(world: World, **terms: object) -> tuple[SegmentedStock, SegmentedStock]:
    """Return one stock as two clients see it."""
    mine, other = await world.clients(2)
    settings: dict[str, object] = {"segments": 4, "memory": _MEMORY, **terms}
    return mine.stock(world.key(), **settings), other.stock(world.key(), **settings)  # type: ignore[arg-type]


@check(52)
async def everything_is_sold_and_nothing_twice(world: World) -> None:
    """More buyers than articles, of few segments, over several clients: all are sold, and no one more."""
    stocks = await _stock_of(world)
    assert await stocks[0].load(50)
    buyers = sorted((f"buyer-{number}" for number in range(80)), key=stocks[0].segment_of)[:52]
    sales = await asyncio.gather(
        *(stocks[number % 2].take(buyer=buyer, order=f"o-{buyer}") for number, buyer in enumerate(buyers))
    )
    taken = [(buyer, 1) for buyer, sale in zip(buyers, sales, strict=True) if isinstance(sale, Taken)]
    left = (await stocks[1].remaining()).segments
    assert check_conservation(50, accepted=taken, left=left) == []
    assert len(taken) == 50
    assert all(isinstance(sale, Taken | SoldOut) for sale in sales)
    assert (await stocks[0].audit()).is_balanced


@check(5)
async def who_comes_first_is_served_first(world: World) -> None:
    """Buyers of one segment, at once and one after the other: whoever comes when all is sold comes later."""
    mine, other = await _stock_of(world)
    await mine.load(4)
    neighbours = [name for name in map("buyer-{}".format, range(80)) if mine.segment_of(name) == 0]
    at_once = await asyncio.gather(*(mine.take(buyer=name, order=f"o-{name}") for name in neighbours[:3]))
    assert [type(sale) for sale in at_once] == [Taken] * 3
    late = ((other, neighbours[3]), (mine, neighbours[4]), (other, "somebody else"))
    sales = [await stock.take(buyer=name, order=f"o-{name}") for stock, name in late]
    assert [type(sale) for sale in sales] == [Taken, SoldOut, SoldOut]
    await mine.add(2)
    at_once = await asyncio.gather(*(other.take(buyer=name, order=f"more-{name}") for name in neighbours[:5]))
    assert [type(sale) for sale in at_once] == [Taken] * 2 + [SoldOut] * 3


@check()
async def an_order_is_taken_once(world: World) -> None:
    """Asked again, by anybody, it says the same; for another buyer or another number it says whose it is."""
    mine, other = await _stock_of(world)
    await mine.load(10)
    first = await mine.take(buyer="ann", order="o-1", quantity=2)
    assert isinstance(first, Taken)
    assert first.segment == mine.segment_of("ann")
    assert await mine.take(buyer="ann", order="o-1", quantity=2) == first
    assert await other.take(buyer="ann", order="o-1", quantity=2) == first
    assert await other.take(buyer="bob", order="o-1", quantity=2) == AlreadyTaken("o-1", "ann")
    assert await other.take(buyer="ann", order="o-1", quantity=1) == AlreadyTaken("o-1", "ann")
    at_once = await asyncio.gather(*(mine.take(buyer="bob", order="o-2") for _ in range(5)))
    assert len(set(at_once)) == 1
    assert (await other.remaining()).total == 7


@check()
async def an_order_of_many_is_filled_from_all_segments(world: World) -> None:
    """Sold out means that all of them together have too little."""
    mine, other = await _stock_of(world)
    await mine.load(8)
    assert await other.take(buyer="ann", order="o-1", quantity=9) == SoldOut(8)
    sale = await other.take(buyer="ann", order="o-2", quantity=7)
    assert sale == Taken(mine.segment_of("ann"), 0)
    assert (await mine.remaining()).total == 1
    assert isinstance(await mine.take(buyer="ann", order="o-3"), Taken)
    assert await mine.take(buyer="ann", order="o-4") == SoldOut(0)
    assert await other.put_back(buyer="ann", order="o-2") == Returned(7)
    assert (await mine.audit()).is_balanced


@check()
async def one_order_per_buyer(world: World) -> None:
    """Where the terms say so: the second one is told of the first, until that goes back."""
    mine, other = await _stock_of(world, once_per_buyer=True)
    await mine.load(10)
    assert isinstance(await mine.take(buyer="ann", order="o-1"), Taken)
    assert await other.take(buyer="ann", order="o-2") == AlreadyTaken("o-1", "ann")
    assert isinstance(await other.take(buyer="bob", order="o-3"), Taken)
    assert await other.put_back(buyer="ann", order="o-1") == Returned(1)
    assert isinstance(await other.take(buyer="ann", order="o-2"), Taken)
    both = await asyncio.gather(mine.take(buyer="eve", order="o-4"), mine.take(buyer="eve", order="o-5"))
    assert sum(isinstance(sale, Taken) for sale in both) == 1


@check()
async def what_goes_back_is_sold_again(world: World) -> None:
    """Once: putting back again changes nothing, and the order itself stays returned."""
    mine, other = await _stock_of(world)
    await mine.load(1)
    assert isinstance(await mine.take(buyer="ann", order="o-1"), Taken)
    assert await other.take(buyer="bob", order="o-2") == SoldOut(0)
    assert await other.put_back(buyer="bob", order="o-1") == AlreadyTaken("o-1", "ann")
    for stock in (mine, other, mine):
        assert await stock.put_back(buyer="ann", order="o-1") == Returned(1)
    assert await mine.take(buyer="ann", order="o-1") == Returned(1)
    assert isinstance(await other.take(buyer="bob", order="o-2"), Taken)
    assert await mine.take(buyer="eve", order="o-3") == SoldOut(0)
    assert (await mine.audit()).is_balanced


@check()
async def a_reservation_goes_back_after_its_time(world: World) -> None:
    """Unless it is confirmed; then it is the buyer's for good."""
    mine, other = await _stock_of(world)
    await mine.load(2)
    hold_for = _HOLD * world.ttl
    assert isinstance(await mine.reserve(buyer="ann", order="o-1", hold_for=hold_for), Taken)
    assert isinstance(await mine.reserve(buyer="bob", order="o-2", hold_for=hold_for), Taken)
    paid = await other.confirm(buyer="ann", order="o-1")
    assert paid == await mine.confirm(buyer="ann", order="o-1") == await mine.take(buyer="ann", order="o-1")
    assert await other.take(buyer="eve", order="o-3") == SoldOut(0)
    await world.sleep(hold_for + world.slack)
    assert await mine.confirm(buyer="bob", order="o-2") == Returned(1)
    assert (await other.remaining()).total == 1
    assert isinstance(await other.take(buyer="eve", order="o-3"), Taken)
    assert await mine.take(buyer="bob", order="o-2") == Returned(1)
    assert await mine.confirm(buyer="joe", order="never") == Returned(0)
    assert (await mine.audit()).is_balanced


@check()
async def a_reservation_that_is_taken_stays(world: World) -> None:
    """It is confirmed by that; reserved once more, it neither ends nor lasts longer."""
    mine, other = await _stock_of(world, outbox=True)
    await mine.load(3)
    for order in ("o-1", "o-2"):
        assert isinstance(await mine.reserve(buyer="ann", order=order, hold_for=_HOLD * world.ttl), Taken)
    kept = await other.take(buyer="ann", order="o-1")
    assert kept == await mine.reserve(buyer="ann", order="o-1", hold_for=world.ttl)
    assert isinstance(await other.reserve(buyer="ann", order="o-2", hold_for=_MEMORY), Taken)
    await world.sleep(_HOLD * world.ttl + world.slack)
    assert await mine.take(buyer="ann", order="o-1") == kept
    assert await mine.take(buyer="ann", order="o-2") == Returned(1)
    entries = await mine.read_outbox()
    moves = [one.move for entry in entries for one in entry.movements if one.order == "o-1"]
    assert moves == [Move.RESERVED, Move.CONFIRMED]
    assert (await mine.audit()).is_balanced


@check()
async def nobody_confirms_the_order_of_another(world: World) -> None:
    """He is told whose it is, wherever either of them is served, and nothing is done: it goes back after its time."""
    mine, other = await _stock_of(world)
    await mine.load(5)
    assert isinstance(await mine.reserve(buyer="ann", order="o-1", hold_for=_HOLD * world.ttl), Taken)
    assert isinstance(await mine.take(buyer="ann", order="o-2"), Taken)
    strangers = {mine.segment_of(name): name for name in map("stranger-{}".format, range(80))}
    assert len(strangers) == 4
    for stranger in strangers.values():
        for order in ("o-1", "o-2"):
            assert await other.confirm(buyer=stranger, order=order) == AlreadyTaken(order, "ann")
        assert await other.confirm(buyer=stranger, order="o-3") == Returned(0)
    await world.sleep(_HOLD * world.ttl + world.slack)
    assert await other.confirm(buyer="ann", order="o-1") == Returned(1)
    assert isinstance(await mine.take(buyer="ann", order="o-3"), Taken)  # who asked for it did not make it his
    assert (await mine.audit()).is_balanced


@check()
async def stock_is_added_once(world: World) -> None:
    """To an open sale, evenly; rebalancing evens out what was sold unevenly."""
    mine, other = await _stock_of(world)
    with raises(ConfigurationError):
        await mine.add(3)
    await mine.load(0)
    assert await other.take(buyer="ann", order="o-1") == SoldOut(0)
    await mine.add(6)
    assert sorted((await other.remaining()).segments) == [1, 1, 2, 2]
    assert isinstance(await other.take(buyer="ann", order="o-1"), Taken)
    for number in range(2):
        await mine.take(buyer="ann", order=f"more-{number}")
    left = await other.rebalance()
    assert sorted(left.segments) == [0, 1, 1, 1]
    assert (await mine.audit()).is_balanced


@check()
async def a_sale_is_opened_once_and_closed(world: World) -> None:
    """The first to load opens it; closed, it sells nothing, takes back what was taken, and can be opened again."""
    mine, other = await _stock_of(world)
    assert await mine.take(buyer="ann", order="o-0") == SoldOut(0)
    assert sorted(await asyncio.gather(mine.load(5), other.load(5))) == [False, True]
    assert isinstance(await mine.take(buyer="ann", order="o-1"), Taken)
    assert (await other.close()).total == 4
    assert await mine.take(buyer="bob", order="o-2") == SoldOut(4)
    assert isinstance(await mine.take(buyer="ann", order="o-1"), Taken)
    assert await mine.put_back(buyer="ann", order="o-1") == Returned(1)
    assert await other.load(3)
    assert (await mine.remaining()).total == 8
    assert isinstance(await mine.take(buyer="bob", order="o-2"), Taken)
    assert await mine._room.add(2, "sent twice") is True
    await other.close()
    assert await mine._room.add(2, "sent twice") is True  # its answer was lost, and it was done before the sale ended
    assert await mine._room.add(2, "too late") is False
    assert (await mine.audit()).loaded == 10
    assert (await mine.audit()).is_balanced


@check()
async def a_closed_sale_is_forgotten_and_another_begins(world: World) -> None:
    """When nothing of it is remembered any more: from nothing. What nobody has read of its outbox stays."""
    mine, other = await _stock_of(world, memory=1.0, outbox=True)
    await mine.load(5)
    await mine.take(buyer="ann", order="o-1")
    assert (await other.close()).total == 4
    await world.sleep(3.0 + world.slack)
    assert await mine.load(3)
    audit = await other.audit()
    assert (audit.loaded, audit.accepted, audit.left, audit.is_balanced) == (3, 0, 3, True)
    assert isinstance(await other.take(buyer="ann", order="o-2"), Taken)
    entries = await mine.read_outbox()
    assert [one.order for entry in entries for one in entry.movements] == ["o-1", "o-2"]


@check()
async def a_stock_has_one_number_of_segments(world: World) -> None:
    """Who counts otherwise is told, and nothing is done."""
    mine, _ = await _stock_of(world)
    await mine.load(5)
    stranger = (await world.client()).stock(world.key(), segments=5, memory=_MEMORY)
    with raises(ConfigurationError):
        await stranger.take(buyer="ann", order="o-1")
    with raises(ConfigurationError):
        await stranger.remaining()
    assert (await mine.remaining()).total == 5


@check()
async def bad_orders_are_refused_before_anything_is_sent(world: World) -> None:
    """By typed errors that name what is wrong."""
    mine, _ = await _stock_of(world)
    for bad in ("", "a\n", "x" * 256):
        with raises(InvalidKeyError):
            await mine.take(buyer="ann", order=bad)
        with raises(InvalidKeyError):
            await mine.put_back(buyer=bad, order="o-1")
    for quantity in (0, -1, True):
        with raises(ConfigurationError):
            await mine.take(buyer="ann", order="o-1", quantity=quantity)
    with raises(ConfigurationError):
        await mine.reserve(buyer="ann", order="o-1", hold_for=2 * _MEMORY)


@check()
async def orders_are_remembered_as_long_as_asked(world: World) -> None:
    """Then the order id and the buyer are new again; the books still balance."""
    mine, other = await _stock_of(world, memory=1.0, once_per_buyer=True)
    await mine.load(5)
    assert isinstance(await mine.take(buyer="ann", order="o-1"), Taken)
    await mine.put_back(buyer="bob", order="o-2")
    await world.sleep(1.0 + world.slack)
    assert isinstance(await other.take(buyer="ann", order="o-3"), Taken)
    assert isinstance(await other.take(buyer="bob", order="o-2"), Taken)
    audit = await mine.audit()
    assert audit.is_balanced
    assert audit.forgotten == 1


@check()
async def the_outbox_tells_every_movement_in_order(world: World) -> None:
    """Written in the same step; read again until it is done with; an order that was buried never was."""
    mine, other = await _stock_of(world, outbox=True)
    await mine.load(3)
    await mine.put_back(buyer="joe", order="o-0")
    await mine.take(buyer="joe", order="o-0")
    await mine.take(buyer="ann", order="o-1", quantity=2)
    await other.reserve(buyer="bob", order="o-2", hold_for=30)
    await mine.take(buyer="eve", order="o-3")
    await mine.confirm(buyer="bob", order="o-2")
    await other.put_back(buyer="ann", order="o-1")
    backend = (await world.client()).backend
    assert isinstance(backend, Stocking)
    room = backend.stock(mine._terms)
    expected = [
        (Move.TAKEN, "o-1", 2),
        (Move.RESERVED, "o-2", 1),
        (Move.CONFIRMED, "o-2", 1),
        (Move.RETURNED, "o-1", 2),
    ]
    entries = await room.outbox("", 100)
    assert not isinstance(entries, Differs)
    moves = [(one.move, one.order, one.quantity) for entry in entries for one in entry.movements]
    assert moves == expected
    assert await room.outbox("", 100) == entries
    rest = await room.outbox(entries[1].id, 1)
    assert rest == [entries[2]]
    assert await room.outbox(entries[-1].id, 100) == []


@check()
async def histories_of_many_clients_are_linearizable(world: World) -> None:
    """Every answer fits one order of events: also that of every refusal."""
    stocks = [client.stock(world.key(), segments=3, memory=_MEMORY) for client in await world.clients(3)]
    await stocks[0].load(12)
    history: list[Operation] = []

    async def shop(who: int) -> None:
        for number in range(12):
            order, called = f"o-{who}-{number}", world.now
            sale = await stocks[who].take(buyer=f"b-{who}", order=order, quantity=1 + number % 2)
            history.append(_operation("take", 1 + number % 2, isinstance(sale, Taken), who, called, world.now))
            if isinstance(sale, Taken) and number % 3 == 0:
                called = world.now
                await stocks[who].put_back(buyer=f"b-{who}", order=order)
                history.append(_operation("put_back", 1 + number % 2, None, who, called, world.now))

    await asyncio.gather(*(shop(who) for who in range(3)))
    assert len(history) > 36
    assert any(one.result is False for one in history)
    assert check_linearizable(history, model=Stock(12)) == []
    assert (await stocks[0].audit()).is_balanced


def _operation(name: str, argument: int, result: bool | None, who: int, called: float, returned: float) -> Operation:
    return Operation("stock", f"shop-{who}", name, called, argument, result, returned)


# --- faults ------------------------------------------------------------------------------------------------


@check(needs="faults")
async def a_take_whose_answer_is_lost_is_one_order(world: World) -> None:
    """Lost once, twice, or before it arrived: it is asked again, and takes once; so are all the others."""
    client = await world.client()
    stock = client.stock(world.key(), segments=4, memory=_MEMORY)
    trouble = world.trouble(client)
    trouble.drop_reply("restock")
    assert await stock.load(20)
    trouble.drop_reply("take", times=2)
    sales = await asyncio.gather(*(stock.take(buyer=f"b{n}", order=f"o{n}", quantity=2) for n in range(5)))
    assert all(isinstance(sale, Taken) for sale in sales)
    trouble.drop_request("take")
    assert isinstance(await stock.take(buyer="ann", order="o-x"), Taken)
    trouble.drop_reply("put_back", times=2)
    assert await stock.put_back(buyer="b1", order="o1") == Returned(2)
    trouble.drop_reply("restock")
    await stock.add(3)
    trouble.drop_reply("confirm")
    assert isinstance(await stock.confirm(buyer="b2", order="o2"), Taken)
    audit = await stock.audit()
    assert audit.is_balanced
    assert (audit.loaded, audit.accepted, audit.returned) == (23, 11, 2)


@check(needs="faults")
async def a_take_around_its_put_back_takes_nothing(world: World) -> None:
    """The put_back of an order that nobody knows buries it: a take that arrives, or is sent again, later is refused."""
    client, other = await world.clients(2)
    stock, theirs = (one.stock(world.key(), segments=4, memory=_MEMORY) for one in (client, other))
    await stock.load(5)
    world.trouble(client).go_down()
    taking = world.start(stock.take(buyer="ann", order="o-1"))
    await world.sleep(0.01)
    assert await theirs.put_back(buyer="ann", order="o-1") == Returned(0)
    world.trouble(client).come_back()
    assert await taking == Returned(0)
    world.trouble(client).drop_reply("take")
    first: Sale = await stock.take(buyer="bob", order="o-2")
    assert isinstance(first, Taken)
    assert await theirs.put_back(buyer="bob", order="o-2") == Returned(1)
    assert await stock.take(buyer="bob", order="o-2") == Returned(1)
    assert (await theirs.remaining()).total == 5
    assert (await theirs.audit()).is_balanced


@check(needs="faults")
async def a_refusal_in_doubt_is_kept(world: World) -> None:
    """A copy of the take may be on its way still: when stock comes, it must not take for a buyer who was told no."""
    client, other = await world.clients(2)
    stock, theirs = (one.stock(world.key(), memory=_MEMORY) for one in (client, other))
    await stock.load(0)
    world.trouble(client).drop_reply("take")
    assert await stock.take(buyer="ann", order="o-1") == SoldOut(0)
    assert await stock.take(buyer="bob", order="o-2") == SoldOut(0)
    await theirs.add(5)
    assert await theirs.take(buyer="ann", order="o-1") == SoldOut(0)
    assert isinstance(await theirs.take(buyer="bob", order="o-2"), Taken)


@check(needs="faults")
async def a_server_that_is_down_is_told_to_who_takes(world: World) -> None:
    """Within the patience of the stock; the order can be taken again under its id."""
    client = await world.client()
    patient, stock = (client.stock(world.key(), memory=_MEMORY, patience=patience) for patience in (5.0, 0.3))
    await patient.load(5)
    world.trouble(client).go_down()
    began = world.now
    with raises(BackendUnavailableError):
        await stock.take(buyer="ann", order="o-1")
    with raises(BackendUnavailableError):
        await stock.remaining()
    assert 0.6 <= world.now - began + 0.001 <= 20.0
    world.trouble(client).come_back()
    assert isinstance(await patient.take(buyer="ann", order="o-1"), Taken)
    assert (await patient.audit()).accepted == 1
