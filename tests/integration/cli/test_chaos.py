"""Who is killed, in which order, and how often."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiodlock.cli import chaos
from aiodlock.cli.chaos import Chaos, Machine


class Victim:
    """Somebody who is always at work, unless he has ended by himself; the first *misses* blows do not reach him."""

    def __init__(self, role: str, *, is_over: bool = False, misses: int = 0) -> None:
        self.role = role
        self.is_over = is_over
        self.is_at_work = not is_over
        self._misses = misses

    async def strike(self) -> bool:
        self._misses -= 1
        return self._misses < 0


class Server:
    """Counts what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def crash(self) -> None:
        self.done.append("crash")

    def start(self) -> None:
        self.done.append("start")


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "_PAUSE", (0.0, 0.0))


async def test_one_of_each_is_killed_first_and_everybody_at_most_twice_more() -> None:
    """A machine before all others; it is back before the next one is killed."""
    told: list[str] = []
    server: Any = Server()
    shops = (Victim("shop"), Victim("shop"))
    one = Chaos([*shops, Victim("relay"), Machine("redis", server, is_busy=lambda: True)], seed=1, told=told.append)
    assert one.is_due
    await one.run()
    assert not one.is_due
    assert told[:3] == ["redis", "shop", "relay"]
    assert Counter(told) == {"redis": 3, "shop": 5, "relay": 3}
    assert server.done == ["crash", "start"] * 3


async def test_who_was_missed_is_struck_again_and_who_is_over_is_not_waited_for() -> None:
    """Somebody of each role is killed for sure, as long as there is somebody."""
    told: list[str] = []
    victims = (Victim("shop", is_over=True), Victim("shop", misses=2), Victim("relay", is_over=True))
    one = Chaos(victims, seed=1, told=told.append)
    running = asyncio.create_task(one.run())
    while one.is_due:  # noqa: ASYNC110
        await asyncio.sleep(0)
    running.cancel()
    assert told[0] == "shop"
    assert set(told) == {"shop"}


async def test_another_seed_is_another_order() -> None:
    """The same one is the same."""

    async def order(seed: int) -> list[str]:
        told: list[str] = []
        await Chaos([Victim(str(number)) for number in range(9)], seed=seed, told=told.append).run()
        return told

    assert await order(1) == await order(1) != await order(2)
