"""Conservation: books that close, and every way of cooking them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiodlock.testing.history import Violation, check_conservation


@dataclass(frozen=True)
class Books:
    loaded: int
    accepted: tuple[tuple[str, int], ...]
    returned: tuple[tuple[str, int], ...]
    left: tuple[int, ...]

    def check(self) -> list[Violation]:
        return check_conservation(self.loaded, accepted=self.accepted, returned=self.returned, left=self.left)


def sell(segments: list[int], wishes: list[tuple[int, bool]]) -> Books:
    """Serve each wish, a quantity and whether it is put back, from the first segment that has enough."""
    left, accepted, returned = list(segments), [], []
    for number, (quantity, regrets) in enumerate(wishes):
        segment = next((i for i, count in enumerate(left) if count >= quantity), None)
        if segment is None:
            continue
        accepted.append((f"o-{number}", quantity))
        if regrets:
            returned.append((f"o-{number}", quantity))
        else:
            left[segment] -= quantity
    return Books(sum(segments), tuple(accepted), tuple(returned), tuple(left))


COOKED: dict[str, tuple[Callable[[Books], Books], str]] = {
    "a unit lost": (lambda b: replace(b, left=(b.left[0] - 1, *b.left[1:])), "not conserved"),
    "a unit invented": (lambda b: replace(b, left=(b.left[0] + 1, *b.left[1:])), "not conserved"),
    "a sale forgotten": (lambda b: replace(b, accepted=b.accepted[1:]), "not conserved"),
    "a sale written twice": (lambda b: replace(b, accepted=b.accepted + b.accepted[:1]), "order accepted twice"),
    "put back twice": (lambda b: replace(b, returned=b.accepted[:1] * 2), "order returned twice"),
    "put back by a stranger": (lambda b: replace(b, returned=(("x", 1),)), "returned, never accepted"),
    "more put back than taken": (lambda b: replace(b, returned=(("o-0", 999),)), "returned, never accepted"),
    "oversold, and it adds up": (lambda b: replace(b, left=(-1, b.left[0] + 1, *b.left[1:])), "oversold"),
}

segments = st.lists(st.integers(1, 20), min_size=1, max_size=5)
wishes = st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=20)


@settings(max_examples=15)
@given(segments=segments, wishes=wishes)
def test_honest_books_close(segments: list[int], wishes: list[tuple[int, bool]]) -> None:
    assert sell(segments, wishes).check() == []


@pytest.mark.parametrize(("cook", "rule"), COOKED.values(), ids=COOKED.keys())
@settings(max_examples=15)
@given(segments=segments, wishes=wishes)
def test_cooked_books_are_caught(
    cook: Callable[[Books], Books], rule: str, segments: list[int], wishes: list[tuple[int, bool]]
) -> None:
    honest = sell(segments, [(1, False), *wishes])
    assert rule in {violation.rule for violation in cook(honest).check()}


def test_the_message_shows_the_sums() -> None:
    (violation,) = check_conservation(10, accepted=[("a", 3), ("b", 2)], returned=[("b", 2)], left=[4, 2])
    assert str(violation) == "not conserved: accepted 5 - returned 2 + left 6 is not loaded 10"
