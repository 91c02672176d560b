"""Who is inside, where all processes of a cell see it: the witness against a lock that lets two in."""

from __future__ import annotations

import mmap
from pathlib import Path

__all__ = ["Guard"]


class Guard:
    """One slot per key; empty, or the token of whoever is inside.

    The first check and the write are two steps, so two processes can both find the slot empty; the one that leaves
    first then finds the other's token. An overlap that lies between both pairs of steps is missed, none is invented.
    """

    def __init__(self, slots: list[int] | memoryview[int]) -> None:
        self.slots = slots

    @classmethod
    def of_one(cls, *, keys: int) -> Guard:
        """For one process: a list, which costs half of memory that is shared."""
        return cls([0] * keys)

    @classmethod
    def of_many(cls, path: Path) -> Guard:
        with path.open("r+b") as file:
            return cls(memoryview(mmap.mmap(file.fileno(), 0)).cast("Q"))

    @staticmethod
    def lay(path: Path, *, keys: int) -> None:
        path.write_bytes(bytes(8 * keys))

    def enter(self, key: int, token: int) -> bool:
        """Say that *token* is inside; return whether somebody else was."""
        crowded = self.slots[key] != 0
        self.slots[key] = token
        return crowded

    def leave(self, key: int, token: int) -> bool:
        """Say that it left; return whether somebody else came meanwhile."""
        crowded = self.slots[key] != token
        self.slots[key] = 0
        return crowded
