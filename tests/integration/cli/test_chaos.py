"""Who is killed, in which order, and how often."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from aiodlock.cli import chaos
from aiodlock.cli.chaos import Chaos, Machine


class Victim:
    """Somebody who is always at work."""

    is_at_work = True

    def __init__(self, role: str) -> None:
        self.role = role

    async def strike(self) -> bool:
        return True


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


async def test_a_machine_is_killed_first_and_everybody_at_most_twice_more() -> None:
    """It is back before the next one is killed."""
    told: list[str] = []
    server: Any = Server()
    one = Chaos(
        [Victim("shop"), Victim("relay"), Machine("redis", server, is_busy=lambda: True)], seed=1, told=told.append
    )
    assert one.is_due
    await one.run()
    assert not one.is_due
    assert told[0] == "redis"
    assert Counter(told) == {"redis": 3, "shop": 2, "relay": 2}
    assert server.done == ["crash", "start"] * 3


async def test_another_seed_is_another_order() -> None:
    """The same one is the same."""

    async def order(seed: int) -> list[str]:
        told: list[str] = []
        await Chaos([Victim(str(number)) for number in range(9)], seed=seed, told=told.append).run()
        return told

    assert await order(1) == await order(1) != await order(2)
