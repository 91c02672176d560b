"""Who is inside and whom to watch: decided from a listing of the line, without I/O.

The rule of the line needs no memory here. Numbers grow, so nobody comes in before anybody: a ticket is inside as soon
as all those before it and its own weight fit the size, and then stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiodlock._core.line import admit
from aiodlock.backends.zookeeper.paths import Node

__all__ = ["FRONT", "Standing", "blocker", "count_inside", "standing_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a listing says about one of its nodes."""

    ahead: Sequence[Node]
    inside: bool
    behind: bool  # whether anybody stands behind it
    company: bool  # whether anybody waits in the line


FRONT = Standing((), inside=True, behind=False, company=False)  # and nothing known of those behind


def count_inside(nodes: Sequence[Node], size: int) -> int:
    """Return how many from the front are inside."""
    return admit(size, 0, (node.weight for node in nodes))


def standing_of(name: str, nodes: Sequence[Node], *, size: int) -> Standing | None:
    """Return where the node of that name stands; None if it is not there."""
    position = next((n for n, node in enumerate(nodes) if node.name == name), None)
    if position is None:
        return None
    inside = count_inside(nodes, size)
    return Standing(nodes[:position], position < inside, position + 1 < len(nodes), inside < len(nodes))


def blocker(ahead: Sequence[Node], weight: int, *, size: int) -> Node | None:
    """Return the node to watch: while it is as it is, a ticket of that *weight* behind *ahead* stays outside.

    A writer watches the one before it, a reader the last writer before it. Where several leavings could let it in, the
    first who waits has to watch them all (None), and those behind it watch the one before them.
    """
    if weight >= size:
        return ahead[-1]
    if full := [node for node in ahead if node.weight >= size]:
        return full[-1]
    return None if count_inside(ahead, size) == len(ahead) else ahead[-1]
