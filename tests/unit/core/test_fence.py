"""The fence: epoch and count in one growing integer of 63 bits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiodlock._core.fence import COUNTS, EPOCHS, fence, split

epochs = st.integers(1, EPOCHS - 1)
counts = st.integers(0, COUNTS - 1)


@given(epochs, counts)
def test_it_is_positive_fits_63_bits_and_splits_again(epoch: int, count: int) -> None:
    """So it fits a signed 64-bit column."""
    value = fence(epoch, count)
    assert 0 < value < 1 << 63
    assert split(value) == (epoch, count)


@given(epochs, counts, epochs, counts)
def test_it_orders_as_the_pair_does(epoch: int, count: int, other_epoch: int, other_count: int) -> None:
    """A later epoch wins over any count; in one epoch the later hand-off wins."""
    smaller = (epoch, count) < (other_epoch, other_count)
    assert (fence(epoch, count) < fence(other_epoch, other_count)) is smaller
