"""Our own node in a line: made, found again when an answer was lost, replaced by a lighter one, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiodlock._core.line import Ticket
from aiodlock.backends.zookeeper.others import amend
from aiodlock.backends.zookeeper.paths import in_order, prefix_of
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.tree import NoNode, Tree
from aiodlock.backends.zookeeper.wire import heard, settled
from aiodlock.errors import BackendUnavailableError

__all__ = ["OwnNode"]


class OwnNode:
    """The node of one ticket of ours, also while it is not known whether there is one."""

    def __init__(self, tree: Tree, ticket: Ticket, parent: str) -> None:
        self.tree = tree
        self.ticket = ticket
        self.parent = parent
        self.name = ""
        self.weight = ticket.weight
        self.epoch = 0  # 0: not known yet
        self.ttl = ticket.ttl  # as the node tells
        self.in_doubt = False  # something was asked for, and no answer came

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.name}"

    async def create(self, *first: Any, ahead: Callable[[], None]) -> list[str]:
        """Create it, with the changes *first* in the same step; return the names in the line right after that.

        Without any, what *ahead* sends goes out before it, in one write.
        """
        prefix, data = f"{self.parent}/{prefix_of(self.ticket, self.weight)}", self._record().encode()
        self.in_doubt = True
        made: asyncio.Future[Any]
        with self.tree.session.together():
            if first:
                made = self.tree.change(*first, self.tree.creation(prefix, data, sequential=True))
            else:
                ahead()
                made = self.tree.create(prefix, data, sequential=True)
            listed = self.tree.children(self.parent)
        await settled(made, listed)
        if error := made.exception():
            self.in_doubt = isinstance(error, BackendUnavailableError)
            raise error
        told: Any = made.result()
        if first:  # then the server tells the path only
            path = told[-1].path
        else:
            path, self.epoch = told[0], told[1].epoch
        self.name, self.in_doubt = path.rpartition("/")[2], False
        return listed.result()

    async def learn_epoch(self) -> None:
        """Know when it was created; while it waits that is read along with other things."""
        if not self.epoch and self.name:
            await self._read()

    async def find(self) -> bool:
        """End the doubt; return whether there is a node of ours that goes with our session."""
        self.tree.session.sync().add_done_callback(heard)
        try:
            names = await self.tree.children(self.parent)
        except NoNode:
            names = []
        self.name = ""
        for node in in_order(names, size=self.ticket.size):
            if node.id == self.ticket.id:
                self.name, self.weight = node.name, node.weight
                await self._read()
        self.in_doubt = False
        return bool(self.name)

    async def replace(self, weight: int) -> None:
        """Put a lighter node with the same number in its place, in one step; the epoch stays."""
        path = f"{self.parent}/{prefix_of(self.ticket, weight)}{self.name.rpartition('__')[2]}"
        record = replace(self._record(), epoch=self.epoch)
        self.in_doubt = True
        await self.tree.change(self.tree.creation(path, record.encode()), self.tree.deletion(self.path))
        self.name, self.weight, self.in_doubt = path.rpartition("/")[2], weight, False

    async def delete(self) -> None:
        """Be without a node, whatever there was."""
        if self.in_doubt:
            await self.find()
        if self.name:
            await self._remove()

    async def tell(self, change: Callable[[Record], Record]) -> None:
        """Change what it holds."""
        await amend(self.tree, self.path, change)

    async def _read(self) -> None:
        try:
            data, stat = await self.tree.get(self.path)
        except NoNode:
            self.name = ""
            return
        self.epoch = Record.decode(data).epoch or stat.epoch
        if stat.owner != self.tree.session.id:  # of a session that we have lost: it would go with that one
            await self._remove()
            self.name = ""

    async def _remove(self) -> None:
        with suppress(NoNode):
            await self.tree.change(self.tree.deletion(self.path))

    def _record(self) -> Record:
        ticket = self.ticket
        return Record(owner=ticket.owner, key=ticket.line.key, ttl=self.ttl, session=self.tree.session.seconds)
