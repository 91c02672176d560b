"""The parent of a line: made when it is missing, told the size where the kind has no fixed one."""

from __future__ import annotations

import asyncio
from typing import Any

from aiodlock._core.line import Ticket
from aiodlock.backends.zookeeper.paths import in_order, is_sized, path_of
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.tree import NodeExists, NoNode, OnEvent, Tree

__all__ = ["Parent"]


class Parent:
    """The line that a ticket of ours stands in, as a node."""

    def __init__(self, tree: Tree, ticket: Ticket) -> None:
        self.path = path_of(tree.session.address.root, ticket.line)
        self.size = ticket.size
        self.kind = ticket.line.kind
        self.is_sized = is_sized(self.kind)
        self._tree = tree
        self._ticket = ticket
        self._making: asyncio.Future[None] | None = None

    async def make(self) -> None:
        """Make it, a container: the server removes it when it is empty."""
        await self._tree.make(self.path, self._data, container=True)

    def make_ahead(self) -> None:
        """Begin to make it where the last line that we came to was missing: then this one often is."""
        if self._tree.misses_lines and not self.is_sized:
            self._making = self._tree.create_lasting(self.path, self._data, container=True)
            self._making.add_done_callback(self._made)

    async def miss(self) -> None:
        """Hear that it is missing: it is made ahead the next time, or now if that was in vain."""
        if self._making is not None:
            await self.make()
        self._tree.misses_lines = True

    async def prepare(self, watch: OnEvent) -> list[Any]:
        """Know the size; return what has to be set together with our node. *watch* is told of another size."""
        while self.is_sized:
            try:
                data, stat = await self._tree.get(self.path, watch)
            except NoNode:
                await self.make()
                continue
            if stat.children:
                self._read(data)
                return []
            # Set also if it stays the same: of all who find the line empty one is the first.
            self.size = self._ticket.size
            return [self._tree.setting(self.path, str(self.size).encode(), stat.version)]
        return []

    async def names(self, watch: OnEvent) -> list[str]:
        """Return who stands in line, and know its present size."""
        try:
            if not self.is_sized:
                return await self._tree.children(self.path)
            about = self._tree.get(self.path, watch)
            names, (data, _) = await asyncio.gather(self._tree.children(self.path), about)
        except NoNode:
            return []
        self._read(data)
        return names

    async def listed(self, watch: OnEvent | None = None) -> list[str]:
        """Return who stands in line; *watch* is told when somebody comes or goes. One that is no more is empty."""
        try:
            return await self._tree.children(self.path, watch)
        except NoNode:
            return []

    async def holder_if_busy(self, weight: int) -> str | None:
        """Look whether there is room for *weight* without standing in line; return who is inside if not."""
        try:
            names, (data, _) = await asyncio.gather(self._tree.children(self.path), self._tree.get(self.path))
            self._read(data)
            nodes = in_order(names, size=self.size)
            if not nodes or sum(node.weight for node in nodes) + weight <= self.size:
                return None
            front, _ = await self._tree.get(f"{self.path}/{nodes[0].name}")
        except NoNode:
            return None
        return Record.decode(front).owner

    @property
    def _data(self) -> bytes:
        return str(self._ticket.size).encode()

    def _made(self, made: asyncio.Future[None]) -> None:
        if not made.cancelled() and isinstance(made.exception(), NodeExists):
            self._tree.misses_lines = False

    def _read(self, data: bytes) -> None:
        if self.is_sized and data.isdigit():
            self.size = int(data)
