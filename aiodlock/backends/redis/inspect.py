"""Who holds, who waits: all lines by ``SCAN``, page by page, never by ``KEYS`` and never with a user's pattern."""

from __future__ import annotations

import fnmatch
from collections.abc import AsyncIterator
from typing import Any

from aiodlock._core.line import LineId, Row, TicketId
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.route import Route
from aiodlock.backends.redis.scripts import bulk, command, load, to_row
from aiodlock.errors import BackendDataError

__all__ = ["inspect"]

_PAGE = 500
_RESTARTS = 5  # a page begins at a ticket; when that has left meanwhile, the line is read again from its front

_INSPECT = load("inspect")
_HEAD = _INSPECT.head(2)


async def inspect(route: Route, keys: Keys, kind: str, pattern: str) -> list[Row]:
    """Return the tickets of all lines of *kind* ("*": any) whose key matches the shell-style *pattern*.

    Each line is seen at one instant, or page by page if it is long; not all of them at the same.
    """
    if kind != "*" and not any(c in pattern for c in "*?["):
        return await _rows(route, keys, keys.name(LineId(kind, pattern)).key, kind, pattern)
    rows: list[Row] = []
    seen: set[bytes] = set()  # a scan may repeat some, and a key may have moved from one server to the next
    for node in route.masters():
        async for key in _scan(node, keys):
            if key not in seen:
                seen.add(key)
                rows += await _rows(route, keys, key, kind, pattern)
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


async def _rows(route: Route, keys: Keys, key: bytes, kind: str, pattern: str) -> list[Row]:
    rows: dict[TicketId, Row] = {}
    start, restarts = b"", 0
    while restarts <= _RESTARTS:
        payload = _HEAD + bulk(key) + bulk(start) + bulk(_PAGE)
        page = await route.send(key, payload, lambda reply, via: reply, _INSPECT.load)
        if page is None:
            start, restarts = b"", restarts + 1
            continue
        name, start, found = page
        line = _line(keys, name or key)
        if line is None or kind not in ("*", line.kind) or not fnmatch.fnmatchcase(line.key, pattern):
            break
        rows |= {row.id: row for row in (to_row(line, one) for one in found)}
        if not start:
            break
    return list(rows.values())


def _line(keys: Keys, text: Any) -> LineId | None:
    try:
        return keys.parse(text)
    except BackendDataError:  # somebody else's key under our prefix
        return None
