"""A server's stock against the ledger: the same asked of both, answer for answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from aiodlock._core.ledger import Ledger
from aiodlock._core.stock import Differs, Movement, Take, Terms
from aiodlock.backends.base import Stockroom


class Both:
    """The same asked of a stockroom and of the ledger; time is short against every life."""

    def __init__(self, room: Stockroom, terms: Terms) -> None:
        self.room = room
        self.ledger = Ledger(terms)

    async def ask(self, verb: str, *arguments: Any) -> Any:
        answer = await getattr(self.room, verb)(*arguments)
        assert answer == getattr(self.ledger, verb)(*arguments, 0.0), (verb, arguments)
        return answer


def _any_takes(dice: random.Random, terms: Terms) -> list[Take]:
    def one() -> Take:
        order, buyer = f"o{dice.randrange(60)}", f"买家-{dice.randrange(30)}"
        home = dice.randrange(terms.segments)
        return Take(order, buyer, dice.choice((1, 1, 2, 5)), home, dice.choice((0.0, 0.0, 600.0)), dice.random() < 0.2)

    return [one() for _ in range(dice.choice((1, 2, 30)))]


def _new_takes(dice: random.Random, terms: Terms, first: int) -> list[Take]:
    """Many at once, of whom none is known; one of them may ask twice."""
    homes = [dice.randrange(terms.segments) for _ in range(dice.choice((4, 9)))]
    takes = [
        Take(f"n{n}", f"new-{n}", dice.choice((1, 1, 3)), home, dice.choice((0.0, 600.0)))
        for n, home in enumerate(homes, first)
    ]
    return takes + takes[: dice.randrange(2)]


async def compare(room_of: Callable[[Terms], Stockroom], key: str, seed: int, *, steps: int = 150) -> None:
    """Ask anything in any order; the answers are the same, and so are the movements in the outbox."""
    dice = random.Random(seed)
    terms = Terms(key, segments=dice.choice((1, 2, 7)), once_per_buyer=dice.random() < 0.5, outbox=True)
    both = Both(room_of(terms), terms)
    operations = [f"op{number}" for number in range(5)]

    def order_and_buyer() -> tuple[str, str]:
        order = f"o{dice.randrange(60)}"
        known = both.ledger._orders.get(order)
        return order, known.buyer if known and dice.random() < 0.9 else "eve"

    for step in range(steps):
        match dice.randrange(11):
            case 0:
                await both.ask("load", dice.randrange(40), dice.choice(operations))
            case 1:
                await both.ask("add", dice.randrange(1, 9), dice.choice(operations))
            case 2 | 3 | 4:
                await both.ask("take", _any_takes(dice, terms))
            case 5 | 6:
                await both.ask("take", _new_takes(dice, terms, 10 * step))
            case 7:
                await both.ask("put_back", *order_and_buyer())
            case 8:
                await both.ask("confirm", *order_and_buyer())
            case 9:
                await both.ask(dice.choice(("remaining", "rebalance", "audit")))
            case 10:
                await both.ask("close" if dice.random() < 0.2 else "remaining")
    assert (await both.ask("audit")).is_balanced
    entries = await both.room.outbox("", 10_000)
    assert not isinstance(entries, Differs)
    assert _movements(entries) == _movements(both.ledger.outbox("", 10_000, 0.0))


def _movements(entries: Any) -> list[Movement]:
    return [movement for entry in entries for movement in entry.movements]
