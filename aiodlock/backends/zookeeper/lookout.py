"""What keeps a ticket of ours out: found in a listing, watched, and walked along as those before it leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from aiodlock.backends.zookeeper.node import OwnNode
from aiodlock.backends.zookeeper.parent import Parent
from aiodlock.backends.zookeeper.paths import Node, in_order
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.standing import Standing, blocker, standing_of
from aiodlock.backends.zookeeper.tree import NoNode, Stat, Tree
from aiodlock.backends.zookeeper.wire import heard, settled
from aiodlock.errors import BackendDataError

__all__ = ["Lookout"]

_TRIES = 20  # a line that changes under every look of ours
_WALK = 3  # nodes before us that are tried one by one before we list them all


class Lookout:
    """Knows who stands before our node and, while it waits, watches exactly the one that blocks it.

    *along* returns what else is to be read in the same go. *on_change* is told when it may be our turn.
    """

    def __init__(
        self,
        tree: Tree,
        line: Parent,
        node: OwnNode,
        *,
        along: Callable[[], asyncio.Future[Any] | None],
        on_change: Callable[[], None],
    ) -> None:
        self.ahead: Sequence[Node] = ()
        self.holder: str | None = None  # who is at the front
        self.last = 0  # his epoch
        self._front = ""
        self._target = ""  # the one that we watch
        self._tree = tree
        self._line = line
        self._node = node
        self._along = along
        self._on_change = on_change
        self._via = -1  # the connection whose watches keep all this up to date; -1: look
        self._changes = self._seen = 0  # what watches told, and how much of it the present look takes into account
        self._is_over = False  # we are inside, and stay so whatever happens before us

    @property
    def is_fresh(self) -> bool:
        """Whether watches would have told us of a change."""
        return self._via == self._tree.session.via

    @property
    def is_front(self) -> bool:
        """Whether we know, from watches alone, that nobody is before us."""
        return self.is_fresh and self._walks and not self.ahead

    @property
    def _walks(self) -> bool:
        """Only where nobody's node can be replaced by a lighter one is the list of those before us good for ever."""
        return not self._line.is_sized and self._line.kind != "rwlock"

    def begin(self) -> None:
        """Take note that a look begins: what is told from now on is news."""
        self._seen = self._changes

    def know(self, via: int) -> None:
        """Be up to date, unless a watch has told something since the look began: then another look is under way."""
        self._via = via if self._changes == self._seen else -1

    async def look_strictly(self, *, inside: bool) -> Standing | None:
        """Look at what is not older than this call, whichever server we are connected to; see `settle`."""
        self._tree.session.sync().add_done_callback(heard)
        return await self.look(inside=inside)

    async def look(self, *, inside: bool) -> Standing | None:
        """List the line; see `settle`."""
        self.begin()
        return await self.settle(await self._line.names(self.resized), inside=inside)

    async def settle(self, names: Sequence[str], *, inside: bool) -> Standing | None:
        """Return where we stand by a listing, None if we do not; watch what keeps us out, unless we are *inside*."""
        for _ in range(_TRIES):
            nodes = in_order(names, size=self._line.size)
            standing = standing_of(self._node.name, nodes, size=self._line.size)
            if standing is None:
                return None
            if standing.inside or inside:
                return standing
            self.ahead, via = standing.ahead, self._tree.session.via
            if (changed := await self._watch_blocker(nodes)) is None:
                self.know(via)
                return standing
            names = changed
        raise BackendDataError(f"{self._line.path}: changes faster than it can be read")

    async def walk(self) -> Standing | None:
        """Go to the next one before us that is still there, listing them all only where that would take long."""
        if self._walks:
            self.begin()
            for _ in range(_WALK):
                if not self.ahead:
                    break
                node, via = self.ahead[-1], self._tree.session.via
                if await self._watch(node, front=self.ahead[0]):
                    self.know(via)
                    return Standing(self.ahead, inside=False, behind=False, company=True)
                self._has_left(node)
        return await self.look(inside=False)

    def rest(self) -> None:
        """Be inside: nothing keeps us out any more."""
        self._is_over, self.ahead = True, ()
        self.know(self._tree.session.via)

    def stop(self) -> None:
        """Watch nothing more."""
        self._tree.ignore(self._line.path, self.resized, self._woken)
        self._tree.ignore(f"{self._line.path}/{self._target}", self._woken)

    # --- watching ----------------------------------------------------------------------------------------------

    async def _watch_blocker(self, nodes: Sequence[Node]) -> list[str] | None:
        """Watch what keeps us out; return another listing if it is no longer as *nodes* say."""
        size, weight = self._line.size, self._node.weight
        target = blocker(self.ahead, weight, size=size)
        if target is not None:
            record = await self._watch(target, front=nodes[0])
            if record is None:  # it has just left
                return await self._line.listed()
            if not record.inside or max(target.weight, weight) >= size:
                return None
        names = await self._line.listed(self._woken)
        if in_order(names, size=size) != nodes:
            return names
        await self._read(front=nodes[0])
        return None

    async def _watch(self, target: Node, *, front: Node) -> Record | None:
        """Watch the one that blocks us; return what it holds, None if it is not there."""
        self._target, path = target.name, f"{self._line.path}/{target.name}"
        watched = self._tree.get(path, self._woken)
        await self._read(watched, front=front)
        if isinstance(watched.exception(), NoNode):
            self._tree.ignore(path, self._woken)
            return None
        data, stat = watched.result()
        if target.name == front.name:
            self._know_front(front, data, stat)
        return Record.decode(data)

    async def _read(self, *reads: asyncio.Future[Any], front: Node) -> None:
        """Wait for *reads*; in the same go know who is at the front."""
        is_known = front.name in (self._front, self._target)
        about = None if is_known else self._tree.get(f"{self._line.path}/{front.name}")
        await settled(*(read for read in (*reads, about, self._along()) if read is not None))
        if about is not None and not about.exception():
            self._know_front(front, *about.result())

    def _know_front(self, front: Node, data: bytes, stat: Stat) -> None:
        record = Record.decode(data)
        self._front, self.holder, self.last = front.name, record.owner, record.epoch or stat.epoch

    # --- what the server tells ---------------------------------------------------------------------------------

    def resized(self, path: str, is_gone: bool) -> None:
        """Hear that the line has another size, or is gone."""
        self._via = -1
        self._woken(path, is_gone)

    def _woken(self, path: str, is_gone: bool) -> None:
        """Hear that what keeps us out has changed."""
        self._changes += 1
        if self._is_over:
            return
        if is_gone and self.ahead and path == f"{self._line.path}/{self.ahead[-1].name}":
            self._has_left(self.ahead[-1])
        if not self.is_front:
            self._via = -1
        self._on_change()

    def _has_left(self, node: Node) -> None:
        if self.ahead and self.ahead[-1] is node:
            self.ahead = self.ahead[:-1]
