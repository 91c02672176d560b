"""A stand: one ticket of ours in its line.

What we know of it is kept up to date by watches, so that being asked costs no request: on the node that blocks us while
we wait, on our own node always (somebody may delete it, or ask us to go), on the children while we are inside and know
of nobody who waits. Watches end with the connection; then we have to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiodlock._core.line import (
    Answer,
    AskedToGo,
    Call,
    Called,
    CompanyCame,
    Gone,
    GoneWhy,
    Inside,
    Ticket,
    TicketGone,
    Waiting,
)
from aiodlock.backends.zookeeper.node import OwnNode, heard, settled
from aiodlock.backends.zookeeper.parent import Parent
from aiodlock.backends.zookeeper.paths import Node, in_order
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.standing import Standing, blocker, count_inside, standing_of
from aiodlock.backends.zookeeper.tree import BadVersion, NoNode, Stat, Tree
from aiodlock.errors import BackendDataError

__all__ = ["Site", "Stand"]

_TRIES = 20  # a line that changes under every look of ours, or a parent that is removed again and again
_SHORT_STAY = 0.003  # seconds; less than a batch in company usually takes
_WALK = 3  # nodes before us that are tried one by one before we list them all


@dataclass(frozen=True, slots=True)
class Site:
    """What all stands of a client share."""

    tree: Tree
    push: Callable[[Call], None]
    own: Callable[[Coroutine[Any, Any, None]], None]
    forget: Callable[[Stand], None]


class Stand:
    """One ticket of ours. Its verbs run one after the other; what the server tells meanwhile makes it look again."""

    def __init__(self, site: Site, ticket: Ticket) -> None:
        self.site = site
        self.tree = site.tree
        self.ticket = ticket
        self.line = Parent(site.tree, ticket)
        self.node = OwnNode(site.tree, ticket)
        self.leaving = False
        self.gone: Gone | None = None
        self.ends = 0.0  # when we give it up ourselves, unless renewed
        self.expiry: asyncio.TimerHandle | None = None
        self.inside = False
        self.company = False
        self._verb = asyncio.Lock()
        self._via = -1  # the connection whose watches keep what follows up to date; -1: look
        self._changes = self._seen = 0  # what watches told, and how much of it the present look takes into account
        self._own_via = -1  # the same of what we know of our own node
        self._asks = 0
        self._ahead: Sequence[Node] = ()
        self._target = ""  # the one of them that we watch
        self._front = ""
        self._holder: str | None = None
        self._last = 0
        self._waited = False  # we have answered that we wait
        self._just_called = False
        self._arming: asyncio.TimerHandle | None = None
        # Only where nobody's node can be replaced by a lighter one is the list of those before us good for ever.
        self._walks = not self.line.is_sized and ticket.line.kind != "rwlock"

    def __repr__(self) -> str:
        state = "gone" if self.gone else "inside" if self.inside else "waiting"
        return f"<Stand {self.ticket.line.key!r} {self.node.name or self.ticket.id} {state}>"

    def answer(self, started: float) -> Answer:
        """Return what we know; *started* is when it was asked for."""
        session = self.tree.session
        if self.gone is not None:
            return replace(self.gone, via=session.via)
        if self.inside:
            remaining = max(0.0, min(self.ends, session.valid_until) - started)
            return Inside(self.node.epoch, remaining, company=self.company, size=self.line.size, via=session.via)
        life = self.ticket.waiting_life
        self._waited = True
        self.ends = max(self.ends, started + life)
        return Waiting(len(self._ahead), life / 3, self._last, self._holder, size=self.line.size, via=session.via)

    # --- verbs -------------------------------------------------------------------------------------------------

    async def join(self, *, queue: bool, instead_of: Stand | None) -> None:
        """Stand in line, or look where we stand."""
        async with self._verb:
            if self.leaving:
                self.gone = self.gone or Gone(GoneWhy.BURIED)
                return
            await self._end_doubt()
            if self.gone is not None:
                return
            if self.node.name:
                await self._look_strictly()
            elif queue or not await self._is_busy():
                await self._stand(instead_of)
            if not (queue or self.inside or self.gone):
                self.leaving, self.gone = True, Gone(GoneWhy.BUSY, self._holder)
                await self.node.delete()

    async def renew(self, ttl: float) -> None:
        """Look unless we know; and for what no watch tells: that nobody waits any more."""
        async with self._verb:
            company_is_news, self._just_called = self._just_called, False
            in_doubt = (self.company and not company_is_news) or not self._is_fresh
            if self.gone is None and self.node.name and in_doubt:
                await self._look_strictly()
            if self.inside and self.gone is None and ttl > self.node.ttl:
                await self._tell(lambda record: replace(record, ttl=ttl))
                self.node.ttl = ttl

    async def leave(self) -> None:
        """Take our node out of the line, also one that we do not know of."""
        self.leaving = True
        async with self._verb:
            self.stop()
            await self.node.delete()

    async def change_weight(self, weight: int) -> None:
        """Become lighter in place."""
        async with self._verb:
            await self._end_doubt()
            if weight < self.node.weight and self.gone is None:
                self.tree.ignore(self.node.path, self._own_changed)
                self._own_via = -1
                try:
                    await self.node.replace(weight)
                except NoNode:
                    self.lose()
            if self.gone is None:
                await self._look_strictly()

    def lose(self) -> None:
        """Hear that the node is gone, and not by us."""
        if self.gone is None and not self.leaving:
            self.gone = Gone(GoneWhy.EXPIRED)
            self.site.forget(self)
            self.site.push(TicketGone(self.ticket.id, via=self.tree.session.via))

    # --- standing in line --------------------------------------------------------------------------------------

    async def _end_doubt(self) -> None:
        if self.node.in_doubt:
            had = self.node.name
            if not await self.node.find() and had:
                self.lose()
            self._own_via = -1

    async def _stand(self, instead_of: Stand | None) -> None:
        old = instead_of
        for _ in range(_TRIES):
            self._seen = self._changes
            first = await self.line.prepare(self._resized)
            if self.node.weight > self.line.size:
                self.gone = Gone(GoneWhy.TOO_HEAVY)
                return
            if old is not None and old.node.name:
                first.append(self.tree.deletion(old.node.path))
            try:
                names = await self.node.create(*first)
            except BadVersion:
                continue
            except NoNode:
                if old is None:
                    await self.line.make()
                old = None
                continue
            if instead_of is not None:
                self.site.forget(instead_of)
            await self._settle(names)
            return
        raise BackendDataError(f"{self.line.path}: removed or changed again and again; is it used by something else?")

    async def _is_busy(self) -> bool:
        """Look whether there is room without standing in line; if not we are gone."""
        self.tree.session.sync().add_done_callback(heard)
        if (holder := await self.line.holder_if_busy(self.node.weight)) is not None:
            self.gone = Gone(GoneWhy.BUSY, holder)
        return self.gone is not None

    # --- looking -----------------------------------------------------------------------------------------------

    @property
    def _is_fresh(self) -> bool:
        return self._via == self.tree.session.via

    async def _look_strictly(self) -> None:
        """Look at what is not older than this call, whichever server we are connected to."""
        self.tree.session.sync().add_done_callback(heard)
        await self._look()

    async def _look(self) -> None:
        self._seen = self._changes
        await self._settle(await self.line.names(self._resized))

    async def _settle(self, names: Sequence[str]) -> None:
        """Act on a listing: be inside, or watch whatever keeps us out."""
        for _ in range(_TRIES):
            nodes = in_order(names, size=self.line.size)
            standing = standing_of(self.node.name, nodes, size=self.line.size)
            if standing is None:
                self.lose()
                return
            if standing.inside or self.inside:
                self._enter(standing)
                return
            self._ahead, via = standing.ahead, self.tree.session.via
            target = blocker(standing.ahead, self.node.weight, size=self.line.size)
            record = await self._watch(target, front=nodes[0]) if target is not None else None
            if target is not None and record is None:  # it has just left
                names = await self.tree.children(self.line.path)
                continue
            if target is None or (record and record.inside and max(target.weight, self.node.weight) < self.line.size):
                names = await self.tree.children(self.line.path, self._woken)
                if in_order(names, size=self.line.size) != nodes:
                    continue
                await self._read(front=nodes[0])
            self._know(via)
            return
        raise BackendDataError(f"{self.line.path}: changes faster than it can be read")

    def _know(self, via: int) -> None:
        """Be up to date, unless a watch has told something since the look began: then another look is under way."""
        self._via = via if self._changes == self._seen else -1

    async def _watch(self, target: Node, *, front: Node) -> Record | None:
        """Watch the one that blocks us; return what it holds, None if it is not there."""
        self._target = target.name
        watched = self.tree.get(f"{self.line.path}/{target.name}", self._woken)
        await self._read(watched, front=front)
        if isinstance(watched.exception(), NoNode):
            self.tree.ignore(f"{self.line.path}/{target.name}", self._woken)
            return None
        data, stat = watched.result()
        if target.name == front.name:
            self._know_front(front, data, stat)
        return Record.decode(data)

    async def _read(self, *reads: asyncio.Future[Any], front: Node) -> None:
        """Wait for *reads*; in the same go know who is at the front, and watch our own node."""
        about = None if front.name in (self._front, self._target) else self.tree.get(f"{self.line.path}/{front.name}")
        own = self._watch_own()
        await settled(*(read for read in (*reads, about, own) if read is not None))
        if about is not None and not about.exception():
            self._know_front(front, *about.result())

    def _know_front(self, front: Node, data: bytes, stat: Stat) -> None:
        record = Record.decode(data)
        self._front, self._holder, self._last = front.name, record.owner, record.epoch or stat.epoch

    def _enter(self, standing: Standing) -> None:
        was_inside, self.inside = self.inside, True
        self._know(self.tree.session.via)
        self._ahead, self.company = (), standing.company
        if self._arming is None:
            self._arming = asyncio.get_running_loop().call_later(_SHORT_STAY, self._arm)
        if self._waited and not was_inside:
            self._just_called = True
            # Of no connection, so that it means "look": how long we are inside is told by the session, not by our life.
            self.site.push(Called(self.ticket.line, self.ticket.id, self.node.epoch, self.company))
        if self.line.is_sized and standing.behind and not was_inside:  # the next one may watch us until we are let in
            self.site.own(self._tell(lambda record: replace(record, inside=True)))

    def _arm(self) -> None:
        """Begin to watch, once we stay: most are inside too shortly to be told anything."""
        self._arming = None
        if not (self.leaving or self.gone):
            self._watch_own()
            if not self.company:
                self._watch_for_company()

    async def _tell(self, change: Callable[[Record], Record]) -> None:
        try:
            await self.node.tell(change)
        except NoNode:
            self.lose()

    # --- what the server tells ---------------------------------------------------------------------------------

    def _woken(self, path: str, is_gone: bool) -> None:
        """Hear that what keeps us out has changed."""
        self._changes += 1
        if is_gone and self._walks and self._ahead and path == f"{self.line.path}/{self._ahead[-1].name}":
            self._ahead = self._ahead[:-1]
        if not (self.leaving or self.inside or self.gone):
            self._via = -1
            self.site.own(self._take_turn())

    def _resized(self, path: str, is_gone: bool) -> None:
        self._via = -1
        self._woken(path, is_gone)

    async def _take_turn(self) -> None:
        async with self._verb:
            if not (self.leaving or self.inside or self.gone or self._is_fresh):
                await (self._walk() if self._walks else self._look())

    async def _walk(self) -> None:
        """Go to the next one before us that is still there, without listing them all."""
        self._seen = self._changes
        for _ in range(_WALK):
            if not self._ahead:
                break
            node, via = self._ahead[-1], self.tree.session.via
            if await self._watch(node, front=self._ahead[0]):
                self._know(via)
                return
            if self._ahead and self._ahead[-1] is node:
                self._ahead = self._ahead[:-1]
        if self._ahead:
            await self._look()
            return
        self.tree.session.sync().add_done_callback(heard)  # for the look that follows
        try:
            company = await self.tree.count(self.line.path) > 1
        except NoNode:
            self.lose()
            return
        if self.gone is None:
            self._enter(Standing((), inside=True, behind=company, company=company))

    def _watch_own(self) -> asyncio.Future[tuple[bytes, Stat]] | None:
        """Watch our own node, once per connection."""
        if self._own_via == self.tree.session.via:
            return None
        self._own_via = self.tree.session.via
        read = self.tree.get(self.node.path, self._own_changed)
        read.add_done_callback(self._heard_of_own)
        return read

    def _own_changed(self, path: str, is_gone: bool) -> None:
        self._own_via = -1
        if not (self.leaving or self.gone):
            self._watch_own()

    def _heard_of_own(self, read: asyncio.Future[tuple[bytes, Stat]]) -> None:
        if read.cancelled():
            return
        if error := read.exception():
            if isinstance(error, NoNode):
                self.lose()
            return
        record = Record.decode(read.result()[0])
        if record.asks > self._asks:
            self._asks = record.asks
            self.site.push(AskedToGo(self.ticket.id, record.asked, via=self.tree.session.via))

    def _watch_for_company(self) -> None:
        self.tree.children(self.line.path, self._children_changed).add_done_callback(self._heard_of_children)

    def _children_changed(self, path: str, is_gone: bool) -> None:
        if self.inside and not (self.company or self.leaving or self.gone):
            self._watch_for_company()

    def _heard_of_children(self, read: asyncio.Future[list[str]]) -> None:
        if read.cancelled() or read.exception() or self.leaving or self.gone or self.company:
            return
        nodes = in_order(read.result(), size=self.line.size)
        if count_inside(nodes, self.line.size) < len(nodes):
            self.company = True
            self.site.push(CompanyCame(self.ticket.id, via=self.tree.session.via))

    def stop(self) -> None:
        """Let no timer and nothing that we watched keep us in memory."""
        for timer in (self._arming, self.expiry):
            if timer is not None:
                timer.cancel()
        self.tree.ignore(self.line.path, self._resized, self._children_changed, self._woken)
        for name, watch in ((self._target, self._woken), (self.node.name, self._own_changed)):
            self.tree.ignore(f"{self.line.path}/{name}", watch)
