"""Who holds, who waits: all lines by ``SCAN``, page by page, never by ``KEYS`` and never with a user's pattern."""

from __future__ import annotations

import fnmatch
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, NamedTuple

from aiodlock._core.line import LineId, Row, TicketId
from aiodlock.backends.base import only_key
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.request import Request
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import bulk, command, load, to_row
from aiodlock.errors import BackendDataError

__all__ = ["inspect"]

_PAGE = 500
_RESTARTS = 5  # a page begins at a ticket; when that has left meanwhile, the line is read again from its front

_INSPECT = load("inspect")
_HEAD = _INSPECT.head(2)


class _Page(NamedTuple):
    """Tickets of one line, and the one to go on from, if any; no line if the key is somebody else's."""

    line: LineId | None
    rows: list[Row]
    further: bytes


async def inspect(route: Route, keys: Keys, kind: str, pattern: str) -> list[Row]:
    """Return the tickets of all lines of *kind* ("*": any) whose key matches the shell-style *pattern*.

    Each line is seen at one instant, or page by page if it is long; not all of them at the same. Somebody else's keys
    under our prefix are passed over, and so is a line that cannot be read, unless it alone is asked for.
    """
    if kind != "*" and (key := only_key(pattern)) is not None:
        return await _rows(route, keys, keys.name(LineId(kind, key)).key, kind, pattern)
    rows: list[Row] = []
    seen: set[bytes] = set()  # a scan may repeat some, and a key may have moved from one server to the next
    for node in route.masters():
        async for name in _scan(node, keys):
            if name not in seen:
                seen.add(name)
                rows += await _rows_if_sound(route, keys, name, kind, pattern)
    return rows


async def _scan(node: Node, keys: Keys) -> AsyncIterator[bytes]:
    """Yield every key of ours on one server."""
    cursor = b"0"
    while True:
        page = command("SCAN", cursor, "MATCH", keys.pattern, "COUNT", 1000, "TYPE", "hash")
        cursor, found = await node.send(page, lambda reply, via: reply)
        for key in found:
            yield key
        if cursor == b"0":
            return


async def _rows_if_sound(route: Route, keys: Keys, key: bytes, kind: str, pattern: str) -> list[Row]:
    try:
        return await _rows(route, keys, key, kind, pattern)
    except BackendDataError:  # it must not hide the others; whoever uses it is told
        return []


async def _rows(route: Route, keys: Keys, key: bytes, kind: str, pattern: str) -> list[Row]:
    rows: dict[TicketId, Row] = {}
    start, restarts = b"", 0
    while restarts <= _RESTARTS:
        payload = _HEAD + bulk(key) + bulk(start) + bulk(_PAGE)
        page = await route.take(key, Request(payload, partial(_to_page, keys, key), _INSPECT))
        if page is None:
            start, restarts = b"", restarts + 1
            continue
        line, found, start = page
        if line is None or kind not in ("*", line.kind) or not fnmatch.fnmatchcase(line.key, pattern):
            break
        rows |= {row.id: row for row in found}
        if not start:
            break
    return list(rows.values())


def _to_page(keys: Keys, key: bytes, reply: Any, via: int) -> _Page | None:
    """Decode what the script shows; None if the ticket to go on from is not there any more."""
    if reply is None:
        return None
    name, further, rows = reply
    line = _line(keys, name or key)
    return _Page(line, [to_row(line, row) for row in rows] if line else [], further)


def _line(keys: Keys, text: bytes) -> LineId | None:
    try:
        return keys.parse(text)
    except BackendDataError:  # somebody else's key under our prefix
        return None
