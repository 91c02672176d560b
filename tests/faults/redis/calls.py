"""Calls lost or doubled on their way: pushes cut out of, or repeated in, what a Redis server says."""

from __future__ import annotations

import re

from aiodlock.testing.proxy import Edit

__all__ = ["repeated"]

# Neither a channel nor a call of ours has a line break in it.
_CALL = re.compile(rb">3\r\n\$\d\r\ns?message\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\n[^\r]*\r\n")
_BEGINS = (b">3\r\n$7\r\nmessage\r\n", b">3\r\n$8\r\nsmessage\r\n")  # the latter in a cluster


def repeated(times: int) -> Edit:
    """Have every call arrive so many times; replies, and the confirmation of a subscription, arrive once."""
    return lambda: _Editor(times)


class _Editor:
    def __init__(self, times: int) -> None:
        self._times = times
        self._rest = b""

    def __call__(self, piece: bytes) -> bytes:
        said = self._rest + piece
        whole = max((found.end() for found in _CALL.finditer(said)), default=0)
        cut = _begin_of_call(said, whole)
        self._rest = said[cut:]
        return _CALL.sub(lambda found: found[0] * self._times, said[:cut])


def _begin_of_call(said: bytes, start: int) -> int:
    """Return where a call begins that has not come wholly yet; the end if there is none."""
    at = said.find(b">", start)
    while at >= 0:
        if said[at:].startswith(_BEGINS) or any(begin.startswith(said[at:]) for begin in _BEGINS):
            return at
        at = said.find(b">", at + 1)
    return len(said)
