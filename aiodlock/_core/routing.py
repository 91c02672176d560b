"""Who belongs to which segment: one function for locks and for stock."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["segment_of"]

_to_int = int.from_bytes


def segment_of(who: str | bytes | int, segments: int) -> int:
    """Return the segment that *who* belongs to: the same in every process and Python version."""
    if segments == 1:
        return 0
    data = who if isinstance(who, bytes) else str(who).encode()
    return _to_int(blake2b(data, digest_size=8).digest(), "big") % segments
