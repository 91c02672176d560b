"""The course of a sale, written down."""

from __future__ import annotations

import itertools

import pytest

from aiodlock.cli.course import Diary, bin_of


@pytest.mark.parametrize(
    ("seconds", "number"), [(0.0, 0), (0.00009, 0), (0.00011, 1), (0.00019, 1), (0.00021, 2), (0.1, 10), (1e9, 23)]
)
def test_each_bin_ends_at_twice_the_last(seconds: float, number: int) -> None:
    """From a tenth of a millisecond on; the last one takes the rest."""
    assert bin_of(seconds) == number


def test_a_wait_is_counted_below_the_end_of_its_bin() -> None:
    """And bins between two that have something are there, empty."""
    diary = Diary()
    diary.waited({bin_of(0.0003): 2})
    diary.waited({bin_of(0.0003): 1, bin_of(0.0015): 5})
    found = [(one.below, one.count) for one in diary.course().waits]
    assert found == [(pytest.approx(0.0004), 3), (pytest.approx(0.0008), 0), (pytest.approx(0.0016), 5)]


def test_a_long_course_stays_small_and_keeps_its_ends() -> None:
    """Looks are left out evenly."""
    diary = Diary()
    for sold in range(10_001):
        diary.look(sold, (10_001 - sold,))
    looks = diary.course().looks
    assert 100 <= len(looks) <= 202
    assert (looks[0].sold, looks[-1].sold) == (0, 10_000)
    steps = {after.sold - before.sold for before, after in itertools.pairwise(looks[:-1])}
    assert len(steps) == 1
    assert [look.at for look in looks] == sorted(look.at for look in looks)


def test_a_course_without_a_look_is_empty() -> None:
    course = Diary().course()
    assert (course.looks, course.waits, course.marks) == ((), (), ())
