"""What a ticket of ours watches for its own sake: its node, and while it is inside whether anybody waits besides it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiodlock.backends.zookeeper.node import OwnNode
from aiodlock.backends.zookeeper.parent import Parent
from aiodlock.backends.zookeeper.paths import in_order
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.standing import count_inside
from aiodlock.backends.zookeeper.tree import NoNode, Stat, Tree

__all__ = ["CompanyWatch", "OwnWatch"]


class OwnWatch:
    """Watches our own node, once per connection: somebody may delete it, or ask us to go."""

    def __init__(
        self, tree: Tree, node: OwnNode, *, on_gone: Callable[[], None], on_asked: Callable[[str], None]
    ) -> None:
        self._tree = tree
        self._node = node
        self._on_gone = on_gone
        self._on_asked = on_asked
        self._via = -1  # the connection over which we are told
        self._asks = 0

    def begin(self) -> asyncio.Future[tuple[bytes, Stat]] | None:
        """Read and watch it; nothing if that is done, or if it is just being replaced by another one."""
        if self._via == self._tree.session.via or self._node.in_doubt:
            return None
        self._via, path = self._tree.session.via, self._node.path
        read = self._tree.get(path, self._changed)
        read.add_done_callback(partial(self._heard, path))
        return read

    def stop(self) -> None:
        """Hear no more of the present node."""
        self._via = -1
        self._tree.ignore(self._node.path, self._changed)

    def _changed(self, path: str, is_gone: bool) -> None:
        self._via = -1
        if is_gone:
            self._has_gone()
        else:
            self.begin()

    def _has_gone(self) -> None:
        if not self._node.in_doubt:  # else it is just being replaced, by our own hand
            self._on_gone()

    def _heard(self, path: str, read: asyncio.Future[tuple[bytes, Stat]]) -> None:
        if read.cancelled() or path != self._node.path:
            return
        if error := read.exception():
            self._via = -1
            if isinstance(error, NoNode):
                self._has_gone()
            return
        data, stat = read.result()
        record = Record.decode(data)
        self._node.epoch = record.epoch or stat.epoch
        if record.asks > self._asks:
            self._asks = record.asks
            self._on_asked(record.asked)


class CompanyWatch:
    """Knows whether anybody waits while we are inside, and watches for it only while nobody is known to."""

    def __init__(self, tree: Tree, line: Parent, on_company: Callable[[], None]) -> None:
        self.is_there = False
        self._tree = tree
        self._line = line
        self._on_company = on_company
        self._is_over = False

    def begin(self) -> None:
        """Be told of the first one who comes."""
        if not (self.is_there or self._is_over):
            self._tree.children(self._line.path, self._changed).add_done_callback(self._heard_names)

    def ask(self) -> None:
        """Find out whether anybody is there besides us, in a line of size 1, without listing them all."""
        self._tree.count(self._line.path).add_done_callback(self._heard_count)

    def stop(self) -> None:
        self._is_over = True
        self._tree.ignore(self._line.path, self._changed)

    def _changed(self, path: str, is_gone: bool) -> None:
        self.begin()

    def _heard_names(self, read: asyncio.Future[list[str]]) -> None:
        if not (read.cancelled() or read.exception()):
            nodes = in_order(read.result(), size=self._line.size)
            self._hear(count_inside(nodes, self._line.size) < len(nodes))

    def _heard_count(self, read: asyncio.Future[int]) -> None:
        if not (read.cancelled() or read.exception()):
            self._hear(read.result() > 1)

    def _hear(self, is_there: bool) -> None:
        if is_there and not (self.is_there or self._is_over):
            self.is_there = True
            self._on_company()
