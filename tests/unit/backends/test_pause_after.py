"""Who has lost a server tries again after longer and longer pauses, and not at the same time as everybody else."""

from __future__ import annotations

import random

import pytest

from aiodlock.backends.base import pause_after


def spread(tries: int) -> tuple[float, float]:
    """Return about the shortest and the longest pause that many clients make."""
    pauses = sorted(pause_after(tries) for _ in range(1000))
    return pauses[0], pauses[-1]


def check() -> None:
    random.seed(7)
    for tries, middle in enumerate([0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]):
        assert spread(tries) == pytest.approx((0.5 * middle, 1.5 * middle), rel=0.02)
    assert pause_after(100_000) <= 0.75


def test_pauses_grow_up_to_a_bound_and_differ() -> None:
    check()


@pytest.mark.parametrize(
    "twin",
    [
        lambda tries: 0.02 * random.uniform(0.5, 1.5),
        lambda tries: 0.02 * 2**tries * random.uniform(0.5, 1.5),
        lambda tries: min(0.02 * 2**tries, 0.5),
    ],
    ids=["never longer", "no bound", "all at once"],
)
def test_another_pause_is_found(twin: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twins."""
    monkeypatch.setitem(globals(), "pause_after", twin)
    with pytest.raises(AssertionError):
        check()
