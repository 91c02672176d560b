"""Who belongs to which segment: one function for locks and for stock."""

from __future__ import annotations

from zlib import crc32

__all__ = ["segment_of"]


def segment_of(who: str | bytes | int, segments: int) -> int:
    """Return the segment that *who* belongs to: the same in every process, Python version and language."""
    return crc32(who if isinstance(who, bytes) else str(who).encode()) % segments
