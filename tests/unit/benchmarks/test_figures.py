"""The formulas behind the columns."""

from __future__ import annotations

import pytest

from benchmarks.figures import Spread, jain, quantile, thin


@pytest.mark.parametrize(
    ("counts", "index"),
    [([5, 5, 5, 5], 1.0), ([9, 0, 0], 1 / 3), ([0, 0], 0.0), ([3, 1], 0.8)],
)
def test_jain_is_one_when_all_got_the_same_and_1_over_n_when_one_got_everything(
    counts: list[int], index: float
) -> None:
    assert jain(counts) == pytest.approx(index)


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert quantile(values, 0.5) == 51
    assert quantile(values, 0.99) == 100
    assert quantile([7.0], 0.99) == 7
    assert quantile([], 0.5) is None


def test_thinning_keeps_the_shape() -> None:
    kept = thin(list(range(10_001)), 5_000)
    assert len(kept) <= 5_000
    assert kept[0] == 0
    assert kept[-1] > 9_990
    assert thin([1.0, 2.0], 5_000) == [1.0, 2.0]


def test_a_spread_is_median_least_and_most() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(median=2.0, least=1.0, most=3.0)
