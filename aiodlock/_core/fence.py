"""The fence: one growing integer per ownership, made of the server's epoch and a local count."""

from __future__ import annotations

__all__ = ["COUNTS", "EPOCHS", "fence", "split"]

COUNTS = 1 << 15  # local hand-offs of one ticket; when they are used up the batch is over
EPOCHS = 1 << 48


def fence(epoch: int, count: int) -> int:
    """Return the fence of the *count*-th ownership under *epoch*: positive, 63 bits."""
    return (epoch << 15) + count


def split(value: int) -> tuple[int, int]:
    """Return the epoch and count of a fence."""
    return value >> 15, value & (COUNTS - 1)
