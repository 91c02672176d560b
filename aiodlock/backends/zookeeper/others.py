"""What is done to tickets of whoever has them: listed, made to leave, asked to go, given a line of another size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from aiodlock._core.line import LineId, Ticket
from aiodlock.backends.zookeeper.paths import Node, in_order, path_of, size_in
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.standing import count_inside
from aiodlock.backends.zookeeper.tree import BadVersion, NoNode, Stat, Tree
from aiodlock.errors import BackendDataError

__all__ = ["Member", "amend", "members", "remove", "resize", "revoke"]

_TRIES = 20  # against others who change the same at the same time


class Member(NamedTuple):
    """One ticket of a line with what its node holds."""

    path: str
    node: Node
    record: Record
    stat: Stat
    inside: bool


async def members(tree: Tree, line: LineId) -> list[Member]:
    """Return the tickets of a line, oldest first."""
    path = path_of(tree.session.address.root, line)
    try:
        names, (data, _) = await asyncio.gather(tree.children(path), tree.get(path))
    except NoNode:
        return []
    size = size_in(data, line.kind)
    nodes = in_order(names, size=size)
    fitting = count_inside(nodes, size)
    found = []
    reads = await asyncio.gather(*(tree.get(f"{path}/{node.name}") for node in nodes), return_exceptions=True)
    for number, (node, read) in enumerate(zip(nodes, reads, strict=True)):
        if isinstance(read, NoNode):
            continue  # it has just left
        if isinstance(read, BaseException):
            raise read
        record = Record.decode(read[0])
        found.append(Member(f"{path}/{node.name}", node, record, read[1], number < fitting or record.inside))
    return found


async def amend(tree: Tree, path: str, change: Callable[[Record], Record]) -> None:
    """Change what a node holds, whoever else does so meanwhile."""
    for _ in range(_TRIES):
        data, stat = await tree.get(path)
        try:
            await tree.change(tree.setting(path, change(Record.decode(data)).encode(), stat.version))
            return
        except BadVersion:
            continue
    raise BackendDataError(f"{path}: changes faster than it can be written")


async def remove(tree: Tree, ticket: Ticket) -> None:
    """Make a ticket leave that is not known here."""
    path = path_of(tree.session.address.root, ticket.line)
    try:
        _, names = await asyncio.gather(tree.session.sync(), tree.children(path))
        for node in in_order(names, size=ticket.size):
            if node.id == ticket.id:
                await tree.change(tree.deletion(f"{path}/{node.name}"))
    except NoNode:
        pass


async def revoke(tree: Tree, line: LineId, reason: str) -> int:
    """Write into the node of everybody inside that it should go; return how many were asked."""
    await tree.session.sync()
    asked = 0
    for member in await members(tree, line):
        if member.inside:
            try:
                await amend(tree, member.path, lambda record: replace(record, asks=record.asks + 1, asked=reason))
                asked += 1
            except NoNode:
                pass
    return asked


async def resize(tree: Tree, line: LineId, size: int) -> None:
    """Give a line another size: who is inside is noted as such, who waits and is too heavy leaves, all in one step."""
    path = path_of(tree.session.address.root, line)
    for _ in range(_TRIES):
        await tree.session.sync()
        changes = [tree.setting(path, str(size).encode())]
        for member in await members(tree, line):
            if member.inside:
                noted = replace(member.record, inside=True).encode()
                changes.append(tree.setting(member.path, noted, member.stat.version))
            elif member.node.weight > size:
                changes.append(tree.deletion(member.path))
        if len(changes) == 1:
            return  # nobody is there: whoever comes first sets the size
        try:
            await tree.change(*changes)
            return
        except (BadVersion, NoNode):
            continue
    raise BackendDataError(f"{path}: changes faster than it can be resized")
