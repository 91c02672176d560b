"""Names in the tree, both ways.

::

    /aiodlock                                    the root, as the URL says
      /lock                                      a kind
        /order:42                                a line, percent-encoded; a container: the server removes it when empty
          /5f2c-1+1__lock__0000000007            a ticket: its id, its weight, and the number the server gave it

Nodes end as kazoo's do, so that its locks and ours in one line exclude each other: ``__lock__`` excludes everybody,
``__rlock__`` is a reader, ``__permit__`` is of a line whose size is in the data of its parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from aiodlock._core.line import LineId, Ticket, TicketId

__all__ = ["Node", "in_order", "is_sized", "line_of", "parse", "path_of", "prefix_of", "size_in"]

_ONE_SIZE = frozenset({"election", "lock", "rwlock", "segment"})  # all their tickets say the same
_NODE = re.compile(r"(?P<stem>.*)__(?P<way>lock|rlock|permit)__(?P<number>\d{10}|-\d{9,10})", re.DOTALL)
_NUMBERS = 1 << 32
_LARGEST_SIZE = 1 << 30


class Node(NamedTuple):
    """One ticket of a line, as its name tells."""

    name: str
    id: TicketId  # of somebody else's node: the whole name
    weight: int
    number: int


def is_sized(kind: str) -> bool:
    """Tell whether a line of this kind keeps its size in its parent; else every ticket of it says the same."""
    return kind not in _ONE_SIZE


def size_in(data: bytes, kind: str) -> int:
    """Return the size of a line from the data of its parent, which somebody else may have made."""
    return int(data) if data.isdigit() else _LARGEST_SIZE if kind == "rwlock" else 1


def path_of(root: str, line: LineId) -> str:
    """Return the path of a line."""
    return f"{root}/{_encode(line.kind)}/{_encode(line.key)}"


def line_of(kind: str, key: str) -> LineId:
    """Return the line of two names as they stand in the tree."""
    return LineId(unquote(kind), unquote(key))


def prefix_of(ticket: Ticket, weight: int) -> str:
    """Return what the name of a ticket's node begins with; the server adds the number."""
    way = "permit" if is_sized(ticket.line.kind) else "lock" if weight >= ticket.size else "rlock"
    return f"{_encode(ticket.id)}+{weight}__{way}__"


def parse(name: str, *, size: int) -> Node | None:
    """Return the node of that name in a line of *size*; None if it is nobody's ticket."""
    if (found := _NODE.fullmatch(name)) is None:
        return None
    ours, _, weight = found["stem"].rpartition("+")
    if ours and weight.isascii() and weight.isdigit():
        return Node(name, TicketId(unquote(ours)), int(weight), int(found["number"]))
    return Node(name, TicketId(name), 1 if found["way"] == "rlock" else size, int(found["number"]))


def in_order(names: Iterable[str], *, size: int) -> list[Node]:
    """Return the tickets of a line, oldest first: numbers have 32 bits, and go on from the largest to the smallest."""
    nodes = [node for name in names if (node := parse(name, size=size))]
    if nodes:
        middle, half = nodes[0].number, _NUMBERS // 2
        nodes.sort(key=lambda node: (node.number - middle + half) % _NUMBERS)
    return nodes


def _encode(name: str) -> str:
    encoded = quote(name, safe=":")
    return encoded.replace(".", "%2E") if encoded in {".", ".."} else encoded
