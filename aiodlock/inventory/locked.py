"""A sale under a segmented lock: read, decide and write are yours, in one segment at a time.

For stock that lives where no script of ours can run, such as a shop's own database. Where it may live in Redis,
`SegmentedStock` is the better form: one call for many orders, and no lock at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiodlock.locks.segmented import SegmentedLock, SegmentHold

__all__ = ["LockedSale"]


class LockedSale:
    """Brings each buyer to a segment that may have something left, and has it to himself.

    Segments found empty are remembered in this process, so that a refusal costs nothing; tell it when stock has come.
    """

    def __init__(self, hot: SegmentedLock) -> None:
        self._hot = hot
        self._empty: set[int] = set()
        self._restocks = 0

    async def buy(self, buyer: str, sell: Callable[[SegmentHold], Awaitable[bool]]) -> bool:
        """Call *sell* under the lock of the buyer's segment, then of others, until it says True; return whether it did.

        *sell* says False where the segment of its hold has nothing left.

        Cancellation: the segment is released; what *sell* has written stays.
        """
        for segment in self._route(buyer):
            async with self._hot.segment(segment) as hold:
                if segment in self._empty:
                    continue
                restocks = self._restocks
                if await sell(hold):
                    return True
                if restocks == self._restocks:  # else *sell* may have looked before stock came
                    self._empty.add(segment)
        return False

    def restocked(self) -> None:
        """Forget which segments were empty: to be called when the stock is there."""
        self._restocks += 1
        self._empty.clear()

    def _route(self, buyer: str) -> Iterator[int]:
        home, count = self._hot.segment_of(buyer), self._hot.segments
        for step in range(count):
            segment = (home + step) % count
            if segment not in self._empty:
                yield segment
