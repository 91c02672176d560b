"""Who belongs to which segment: one function for locks and for stock."""

from __future__ import annotations

import hashlib

__all__ = ["segment_of"]


def segment_of(who: str | bytes | int, segments: int) -> int:
    """Return the segment that *who* belongs to: the same in every process and Python version."""
    if segments == 1:
        return 0
    data = who if isinstance(who, bytes) else str(who).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") % segments
