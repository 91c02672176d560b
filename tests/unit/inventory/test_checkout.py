"""The checkout: what travels together, what is sent again, what a cancel and a close leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import aiodlock
from aiodlock import LockClient, Returned, SegmentedStock, SoldOut, Taken
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.errors import BackendUnavailableError, ClientClosedError, TooManyWaitersError, UnsupportedError
from aiodlock.events import Event, StockReturned, StockTaken
from aiodlock.inventory import LockedSale
from aiodlock.testing import Faults, LoopClock, VirtualTimeLoop

LOOP = VirtualTimeLoop


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
async def locks(events: list[Event]) -> AsyncIterator[LockClient]:
    backend = MemoryBackend(server=MemoryServer(clock=LoopClock()))
    async with LockClient(backend, clock=LoopClock(), max_waiters=50, on_event=events.append) as client:
        yield client


@pytest.fixture
async def stock(locks: LockClient) -> SegmentedStock:
    stock = locks.stock("sku", segments=3, once_per_buyer=True)
    await stock.load(10)
    return stock


def take(stock: SegmentedStock, number: int) -> asyncio.Task[aiodlock.Sale]:
    return asyncio.ensure_future(stock.take(buyer=f"b{number}", order=f"o{number}"))


async def test_takes_of_one_step_are_one_call(locks: LockClient, stock: SegmentedStock) -> None:
    """And the same order asked for twice is one wish."""
    faults = Faults(locks)
    sales = await asyncio.gather(*(take(stock, number // 2) for number in range(20)))
    assert faults.sent == ["take"]
    assert sum(isinstance(sale, Taken) for sale in sales) == 20
    assert (await stock.remaining()).total == 0


async def test_who_is_patient_is_served_soon_after_an_outage(locks: LockClient) -> None:
    """However long he would have waited."""
    stock = locks.stock("other", patience=600.0)
    await stock.load(10)
    faults = Faults(locks)
    faults.go_down()
    taking = take(stock, 1)
    await asyncio.sleep(100.0)
    faults.come_back()
    await asyncio.sleep(1.1)
    assert taking.done()
    assert isinstance(taking.result(), Taken)


async def test_a_take_cancelled_before_it_was_sent_takes_nothing(locks: LockClient, stock: SegmentedStock) -> None:
    faults, task = Faults(locks), take(stock, 1)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert (await stock.remaining()).total == 10
    assert "take" not in faults.sent


async def test_a_take_cancelled_on_its_way_is_not_sent_again(locks: LockClient, stock: SegmentedStock) -> None:
    """Its outcome is unknown: the next try says so, and a refusal is then kept."""
    await stock.close()
    faults = Faults(locks)
    faults.drop_reply("take")
    task = take(stock, 1)
    await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(1)
    assert faults.sent.count("take") == 1
    assert await stock.take(buyer="b1", order="o1") == SoldOut(10)
    await stock.load(5)
    assert await stock.take(buyer="b1", order="o1") == SoldOut(10)
    assert await stock.put_back(buyer="b1", order="o1") == Returned(0)


@pytest.mark.parametrize("steps", [0, 1, 5])
async def test_an_order_cancelled_and_asked_for_again_is_answered(
    locks: LockClient, stock: SegmentedStock, steps: int
) -> None:
    """Also while the first try is on its way, or was left out of its call."""
    faults = Faults(locks)
    faults.fall_silent()
    first = take(stock, 1)
    for _ in range(steps):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    again = take(stock, 1)
    await asyncio.sleep(0.01)
    faults.come_back()
    assert isinstance(await again, Taken)
    assert (await stock.remaining()).total == 9


async def test_closing_tells_who_waits(locks: LockClient, stock: SegmentedStock) -> None:
    Faults(locks).fall_silent()
    task = take(stock, 1)
    await asyncio.sleep(0.1)
    await locks.aclose()
    with pytest.raises(ClientClosedError, match="order 'o1' of stock 'sku'"):
        await task


async def test_too_many_are_turned_away(locks: LockClient, stock: SegmentedStock) -> None:
    """And when the others are answered there is room again."""
    faults = Faults(locks)
    faults.fall_silent()
    tasks = [take(stock, number) for number in range(50)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaitersError, match="stock 'sku': 50 tasks"):
        await stock.take(buyer="late", order="late")
    faults.come_back()
    assert sum(isinstance(sale, Taken) for sale in await asyncio.gather(*tasks)) == 10
    assert await stock.take(buyer="late", order="late") == SoldOut(0)


async def test_an_order_that_gets_no_answer_says_what_to_do(locks: LockClient, stock: SegmentedStock) -> None:
    Faults(locks).go_down()
    with pytest.raises(BackendUnavailableError, match=r"order 'o1' of stock 'sku'.*put it back"):
        await take(stock, 1)


async def test_events_tell_of_orders(locks: LockClient, stock: SegmentedStock, events: list[Event]) -> None:
    """An order that had nothing is put back without a word: nothing came back."""
    await stock.put_back(buyer="ann", order="never taken")
    sale = await stock.take(buyer="ann", order="o-1", quantity=2)
    await stock.put_back(buyer="ann", order="o-1")
    await asyncio.sleep(0)
    assert isinstance(sale, Taken)
    assert events == [StockTaken("sku", "o-1", 2, sale.segment), StockReturned("sku", "o-1", 2)]


async def test_a_backend_without_stock_says_so() -> None:
    class Bare(MemoryBackend):
        stock = None  # type: ignore[assignment]

    with pytest.raises(UnsupportedError, match="keeps no stock"):
        LockClient(Bare()).stock("sku")


async def test_a_locked_sale_sells_everything_and_looks_again_when_stock_has_come(locks: LockClient) -> None:
    """Empty segments are remembered, until it is told."""
    left, visits = [2, 0, 1], list[int]()

    async def sell(hold: aiodlock.SegmentHold) -> bool:
        visits.append(hold.segment)
        left[hold.segment] -= 1
        if left[hold.segment] < 0:
            left[hold.segment] = 0
            return False
        return True

    sale = LockedSale(locks.segmented("locked", segments=3))
    assert [await sale.buy(f"b{number}", sell) for number in range(4)] == [True, True, True, False]
    assert sorted({*visits}) == [0, 1, 2]
    visits.clear()
    assert not await sale.buy("b9", sell)
    assert visits == []
    left[1] = 1
    sale.restocked()
    assert await sale.buy("b9", sell)


async def test_stock_that_comes_while_a_segment_is_found_empty_is_sold(locks: LockClient) -> None:
    """Who looked before it came does not shut the segment behind it."""
    left, is_there = [0], asyncio.Event()

    async def sell(hold: aiodlock.SegmentHold) -> bool:
        seen = left[0]
        await is_there.wait()
        left[0] -= bool(seen)
        return bool(seen)

    sale = LockedSale(locks.segmented("locked", segments=1))
    early = asyncio.create_task(sale.buy("ann", sell))
    await asyncio.sleep(0.1)
    left[0] = 1
    sale.restocked()
    is_there.set()
    assert not await early
    assert await sale.buy("bob", sell)


def test_a_take_from_another_loop_is_refused_also_while_others_are_queued() -> None:
    """The first loop stopped between a take and its sending; what the second asks for is not put behind it."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = aiodlock.connect("memory://")
        first.run(client.start())
        stock = client.stock("sku")
        first.run(stock.load(10))

        async def begin() -> asyncio.Task[aiodlock.Sale]:
            return take(stock, 1)  # which has one step, the loop's last

        async def finish(taking: asyncio.Task[aiodlock.Sale]) -> int:
            await taking
            return (await stock.remaining()).total

        taking = first.run(begin())
        with pytest.raises(ClientClosedError, match="another event loop"):
            second.run(stock.take(buyer="b2", order="o2"))
        assert first.run(finish(taking)) == 9
        first.run(client.aclose())
