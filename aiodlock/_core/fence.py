"""The fence: one growing integer per ownership: the server's epoch, then a local count. Positive, 63 bits."""

from __future__ import annotations

from aiodlock.errors import ConfigurationError

__all__ = ["COUNTS", "COUNT_BITS", "EPOCHS", "LAST_COUNT", "check_fence", "fence", "split"]

COUNT_BITS = 15
COUNTS = 1 << COUNT_BITS
LAST_COUNT = COUNTS - 1  # ownerships of one ticket; when they are used up the batch is over
EPOCHS = 1 << 48


def fence(epoch: int, count: int) -> int:
    """Return the fence of the *count*-th ownership under *epoch*."""
    return (epoch << COUNT_BITS) + count


def check_fence(value: object) -> int:
    """Return *value* if it can be a fence."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
        raise ConfigurationError(f"fence={value!r}: give the fence of a hold, a positive integer of 63 bits")
    return value


def split(value: int) -> tuple[int, int]:
    """Return the epoch and count of a fence."""
    return value >> COUNT_BITS, value & (COUNTS - 1)
