"""A stand: one ticket of ours in its line.

What we know of it is kept up to date by watches, so that being asked costs no request: on whatever keeps us out while
we wait, on our own node always, on the children while we are inside and know of nobody who waits. Watches end with the
connection; then we have to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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
from aiodlock.backends.zookeeper.lookout import Lookout
from aiodlock.backends.zookeeper.node import OwnNode
from aiodlock.backends.zookeeper.parent import Parent
from aiodlock.backends.zookeeper.record import Record
from aiodlock.backends.zookeeper.standing import FRONT, Standing
from aiodlock.backends.zookeeper.tree import BadVersion, NoNode, Tree
from aiodlock.backends.zookeeper.watches import CompanyWatch, OwnWatch
from aiodlock.backends.zookeeper.wire import heard
from aiodlock.errors import BackendDataError

__all__ = ["Site", "Stand"]

_TRIES = 20  # a parent that is removed or changed again and again
_SHORT_STAY = 0.003  # seconds; less than a batch in company usually takes


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
        self.session = site.tree.session
        self.ticket = ticket
        self.line = Parent(site.tree, ticket)
        self.node = OwnNode(site.tree, ticket, self.line.path)
        self.leaving = False
        self.gone: Gone | None = None
        self.ends = 0.0  # when we give it up ourselves, unless renewed
        self.expiry: asyncio.TimerHandle | None = None
        self.inside = False
        self.just_called = False  # let in after it had waited, and not asked about since
        self._own = OwnWatch(site.tree, self.node, on_gone=self.lose, on_asked=self._asked)
        self._company = CompanyWatch(site.tree, self.line, self._company_came)
        self._lookout = Lookout(site.tree, self.line, self.node, along=self._own.begin, on_change=self._woken)
        self._verb = asyncio.Lock()
        self._waited = False  # we have answered that we wait
        self._owes_note = False  # somebody may watch our node until it says that we are inside
        self._arming: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        state = "gone" if self.gone else "inside" if self.inside else "waiting"
        return f"<Stand {self.ticket.line.key!r} {self.node.name or self.ticket.id} {state}>"

    def answer(self, started: float) -> Answer:
        """Return what we know; *started* is when it was asked for."""
        via, size = self.session.via, self.line.size
        if self.gone is not None:
            return replace(self.gone, via=via)
        if self.inside:
            remaining = max(0.0, min(self.ends, self.session.valid_until) - started)
            return Inside(self.node.epoch, remaining, company=self._company.is_there, size=size, via=via)
        life, known = self.ticket.waiting_life, self._lookout
        self._waited = True
        self.ends = max(self.ends, started + life)
        return Waiting(len(known.ahead), life / 3, known.last, known.holder, size=size, via=via)

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
                self.leaving, self.gone = True, Gone(GoneWhy.BUSY, self._lookout.holder)
                await self.node.delete()

    async def renew(self, ttl: float) -> None:
        """Look unless we know; and for what no watch tells: that nobody waits any more."""
        async with self._verb:
            await self._end_doubt()
            company_is_news, self.just_called = self.just_called, False
            in_doubt = (self._company.is_there and not company_is_news) or not self._lookout.is_fresh
            if self.gone is None and self.node.name and in_doubt:
                await self._look_strictly()
            if self.inside and self.gone is None and ttl > self.node.ttl:
                await self._tell(lambda record: replace(record, ttl=ttl))
                self.node.ttl = ttl
            if self._owes_note and self.gone is None:
                await self._note_inside()

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
                self._own.stop()
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
            self.site.push(TicketGone(self.ticket.id, via=self.session.via))

    def stop(self) -> None:
        """Let no timer and nothing that we watched keep us in memory."""
        for timer in (self._arming, self.expiry):
            if timer is not None:
                timer.cancel()
        for watch in (self._lookout, self._own, self._company):
            watch.stop()

    # --- standing in line --------------------------------------------------------------------------------------

    async def _end_doubt(self) -> None:
        if self.node.in_doubt:
            had = self.node.name
            if not await self.node.find() and had:
                self.lose()
            self._own.stop()

    async def _stand(self, instead_of: Stand | None) -> None:
        old = instead_of
        if old is not None and old.node.in_doubt:
            await old.node.find()
        for _ in range(_TRIES):
            self._lookout.begin()
            first = await self.line.prepare(self._lookout.resized)
            if self.node.weight > self.line.size:
                self.gone = Gone(GoneWhy.TOO_HEAVY)
                return
            if old is not None and old.node.name:
                first.append(self.site.tree.deletion(old.node.path))
            try:
                names = await self.node.create(*first, ahead=self.line.make_ahead)
            except BadVersion:
                continue
            except NoNode:
                if old is None:
                    await self.line.miss()
                old = None
                continue
            if instead_of is not None:
                self.site.forget(instead_of)
            await self._heed(await self._lookout.settle(names, inside=False))
            return
        raise BackendDataError(f"{self.line.path}: removed or changed again and again; is it used by something else?")

    async def _is_busy(self) -> bool:
        """Look whether there is room without standing in line; if not we are gone."""
        self.session.sync().add_done_callback(heard)
        if (holder := await self.line.holder_if_busy(self.node.weight)) is not None:
            self.gone = Gone(GoneWhy.BUSY, holder)
        return self.gone is not None

    async def _look_strictly(self) -> None:
        await self._heed(await self._lookout.look_strictly(inside=self.inside))

    async def _heed(self, standing: Standing | None) -> None:
        """Act on where we stand."""
        if standing is None:
            self.lose()
        elif standing.inside or self.inside:
            await self.node.learn_epoch()
            if self.node.name:
                self._enter(standing)
            else:
                self.lose()

    def _enter(self, standing: Standing) -> None:
        was_inside, self.inside = self.inside, True
        self._lookout.rest()
        self._company.is_there = standing.company
        if self._arming is None:
            self._arming = asyncio.get_running_loop().call_later(_SHORT_STAY, self._arm)
        if self._waited and not was_inside:
            self.just_called = True
            self._call(company=standing.company)
        if self.line.is_sized and standing.behind and not was_inside:
            self._owes_note = True
            self.site.own(self._note_inside())

    def _arm(self) -> None:
        """Begin to watch, once we stay: most are inside too shortly to be told anything."""
        self._arming = None
        if not (self.leaving or self.gone):
            self._own.begin()
            self._company.begin()

    async def _note_inside(self) -> None:
        """Write to our node that we are inside; what has no answer is done again by the next renewal."""
        await self._tell(lambda record: replace(record, inside=True))
        self._owes_note = False

    async def _tell(self, change: Callable[[Record], Record]) -> None:
        try:
            await self.node.tell(change)
        except NoNode:
            self.lose()

    # --- what the server tells ---------------------------------------------------------------------------------

    def _woken(self) -> None:
        """Hear that it may be our turn."""
        if self.leaving or self.gone:
            return
        if self._lookout.is_front and self.node.epoch and not self._verb.locked():
            self._enter_from_front()
        else:
            self.site.own(self._take_turn())

    async def _take_turn(self) -> None:
        async with self._verb:
            if self.leaving or self.inside or self.gone:
                return
            if self._lookout.is_front and self.node.epoch:
                self._enter_from_front()
            elif not self._lookout.is_fresh:
                await self._heed(await self._lookout.walk())

    def _enter_from_front(self) -> None:
        """Be inside without asking: all who were before us have left, and if our own node did too we are told so.

        The rest is asked afterwards: whether anybody waits, and for how long our session lasts. Whoever is called takes
        two steps of the loop to go on, and does not wait for what is sent meanwhile.
        """
        self._lookout.begin()
        self._enter(FRONT)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._ask_the_rest)

    def _ask_the_rest(self) -> None:
        if not (self.leaving or self.gone):
            with self.session.together():
                self.session.freshen()
                self._company.ask()

    def _asked(self, reason: str) -> None:
        if not (self.leaving or self.gone):
            self.site.push(AskedToGo(self.ticket.id, reason, via=self.session.via))

    def _company_came(self) -> None:
        if self.leaving or self.gone:
            return
        if self.just_called:  # without this, and it has not looked since
            self._call(company=True)
        else:
            self.site.push(CompanyCame(self.ticket.id, via=self.session.via))

    def _call(self, *, company: bool) -> None:
        # Of no connection, so that it means "look": how long we are inside is told by the session, not by our life.
        self.site.push(Called(self.ticket.line, self.ticket.id, self.node.epoch, company))
