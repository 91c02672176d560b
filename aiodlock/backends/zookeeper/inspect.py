"""Who holds and who waits, read from the nodes."""

from __future__ import annotations

import asyncio
import fnmatch
import time

from aiodlock._core.line import LineId, Row
from aiodlock.backends.base import only_key
from aiodlock.backends.zookeeper.others import Member, members
from aiodlock.backends.zookeeper.paths import line_of
from aiodlock.backends.zookeeper.tree import NoNode, Tree
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["rows"]

_LATCHES = "latch"


async def rows(tree: Tree, kind: str, pattern: str) -> list[Row]:
    """Return the tickets of every line of *kind* (``*``: any) whose key matches the shell-style *pattern*."""
    await tree.session.sync()
    lines = await _lines(tree, kind, pattern)
    found = [(line, member) for line in lines for member in await members(tree, line)]
    now = await _now(tree) if found else 0.0
    return [_row(line, member, now) for line, member in found]


async def _now(tree: Tree) -> float:
    """Return the time by the server's clock, or by ours where we may not create what would tell us the server's."""
    try:
        return await tree.server_now()
    except BackendUnavailableError:
        raise
    except BackendError:
        return time.time()


async def _lines(tree: Tree, kind: str, pattern: str) -> list[LineId]:
    if kind != "*" and (key := only_key(pattern)) is not None:
        return [LineId(kind, key)]
    kinds = await _names(tree, tree.session.address.root) if kind == "*" else [kind]
    keys = await asyncio.gather(*(_names(tree, f"{tree.session.address.root}/{name}") for name in kinds))
    lines = [line_of(name, key) for name, some in zip(kinds, keys, strict=True) if name != _LATCHES for key in some]
    return [line for line in lines if fnmatch.fnmatchcase(line.key, pattern)]


async def _names(tree: Tree, path: str) -> list[str]:
    try:
        return sorted(await tree.children(path))
    except NoNode:
        return []


def _row(line: LineId, member: Member, now: float) -> Row:
    node, record, stat, inside = member.node, member.record, member.stat, member.inside
    return Row(
        kind=line.kind,
        key=line.key,
        id=node.id,
        owner=record.owner,
        inside=inside,
        weight=node.weight,
        since=max(0.0, now - stat.created),
        remaining=record.life,
        epoch=(record.epoch or stat.epoch) if inside else None,
    )
