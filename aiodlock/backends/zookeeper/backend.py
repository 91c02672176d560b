"""ZooKeeper as a backend: what a client has there, and its verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from aiodlock._core.line import (
    Answer,
    Call,
    Gone,
    GoneWhy,
    LineId,
    Reconnected,
    Row,
    StateChanged,
    Ticket,
    TicketId,
    tombstone_life,
)
from aiodlock.backends.base import Capabilities, Finding, OnCall
from aiodlock.backends.zookeeper import inspect, others
from aiodlock.backends.zookeeper.address import Address
from aiodlock.backends.zookeeper.errand import begin
from aiodlock.backends.zookeeper.latch import Latches
from aiodlock.backends.zookeeper.session import Session, SessionState
from aiodlock.backends.zookeeper.stand import Site, Stand
from aiodlock.backends.zookeeper.tombstones import Tombstones
from aiodlock.backends.zookeeper.tree import Tree
from aiodlock.errors import BackendError, ConfigurationError

__all__ = ["ZooKeeperBackend"]

_EXPIRED_LIFE = 60.0  # how long it is remembered that a ticket ended by its life


class ZooKeeperBackend:
    """One client's session with a ZooKeeper ensemble.

    *session*: seconds after which the server gives up a client that it does not hear of, and with it all its tickets.
    It is what a lease means here: a ttl that is shorter is kept by the client itself, a longer one is cut to what the
    session surely lasts, see `proof`, and renewed more often. *tick*: the ``tickTime`` of the servers in seconds.
    """

    capabilities = Capabilities()

    def __init__(self, address: Address, *, session: float = 10.0, tick: float = 2.0) -> None:
        if not 0 < session < 1_000_000 or not 0 < tick < 1_000:
            raise ConfigurationError(f"session={session!r}, tick={tick!r}: give seconds above 0")
        self.address = str(address)
        self._session = Session(
            address, seconds=session, tick=tick, on_watch=self._on_watch, on_change=self._session_changed
        )
        self._tree = Tree(self._session)
        self._site = Site(self._tree, self._push, self._own, self._forget)
        self._latches = Latches(self._tree, self._push, self._own)
        self._stands: dict[TicketId, Stand] = {}
        self._tombstones = Tombstones()
        self._work: set[asyncio.Task[None]] = set()
        self._on_call: OnCall | None = None

    @classmethod
    def from_url(cls, url: str, *, session: float = 10.0, tick: float = 2.0) -> ZooKeeperBackend:
        """Return the backend of ``zk://user:password@host1:2181,host2:2181/root``."""
        return cls(Address.from_url(url), session=session, tick=tick)

    @property
    def state(self) -> SessionState:
        """Whether the session is connected, suspended or lost."""
        return self._session.state

    async def open(self, on_call: OnCall) -> None:
        self._on_call = on_call
        await self._session.open()

    async def aclose(self) -> None:
        self._on_call = None
        stands = list(self._stands.values())
        for stand in stands:
            stand.leaving = True
            self._forget(stand)
        await self._session.aclose(insist=bool(stands))
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(self._work)

    async def ping(self) -> None:
        await self._session.sync()

    def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Awaitable[Answer]:
        return begin(self._join(ticket, queue, instead_of))

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        if bury:
            life = tombstone_life(ticket.ttl)
            self._tombstones.set(ticket.id, GoneWhy.BURIED, now=self._session.now(), life=life)
        stand = self._stands.get(ticket.id)
        return begin(others.remove(self._tree, ticket) if stand is None else self._leave(stand))

    def renew(self, tickets: Sequence[Ticket]) -> Awaitable[Sequence[Answer | None]]:
        return begin(self._renew_all(tickets))

    async def inspect(self, kind: str, pattern: str) -> Sequence[Row]:
        return await inspect.rows(self._tree, kind, pattern)

    async def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        started = self._session.now()
        stand = self._stands.get(ticket.id)
        if stand is None or not stand.inside or stand.leaving:
            return Gone(GoneWhy.EXPIRED, via=self._session.via)
        await stand.change_weight(weight)
        return await self._answer(stand, started)

    async def change_size(self, line: LineId, size: int) -> None:
        await others.resize(self._tree, line, size)

    async def revoke(self, line: LineId, reason: str) -> int:
        return await others.revoke(self._tree, line, reason)

    async def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> int:
        return await self._latches.count(line, count=count, down=down, operation=operation, ttl=ttl)

    async def diagnose(self) -> Sequence[Finding]:
        from aiodlock.backends.zookeeper.doctor import diagnose

        return await diagnose(self._session, self._tree)

    # --- tickets -----------------------------------------------------------------------------------------------

    async def _join(self, ticket: Ticket, queue: bool, instead_of: TicketId | None) -> Answer:
        started = self._session.now()
        old = self._stands.get(instead_of) if instead_of is not None else None
        if old is not None:
            old.leaving = True
        if (why := self._tombstones.why(ticket.id, now=started)) is not None:
            if old is not None:
                await self._leave(old)
            return Gone(why, via=self._session.via)
        stand = self._stands.setdefault(ticket.id, Stand(self._site, ticket))
        if stand.leaving:  # asked for again before it could be told that it is gone
            await stand.leave()
        await stand.join(queue=queue, instead_of=old)
        if stand.gone is not None and old is not None:
            await self._leave(old)  # it was to go with a step that was not taken
        return await self._answer(stand, started, life=0.0 if stand.ends else ticket.ttl)

    async def _renew_all(self, tickets: Sequence[Ticket]) -> Sequence[Answer | None]:
        started = self._session.now()
        stands = [self._stands.get(ticket.id) for ticket in tickets]
        await self._session.prove(within=min(map(self._proof_for, stands), default=self._session.seconds))
        if len(tickets) == 1:  # whoever was just called waits for this
            return [await self._renew(tickets[0], stands[0], started)]
        return await asyncio.gather(*map(self._renew, tickets, stands, [started] * len(stands)))

    def _proof_for(self, stand: Stand | None) -> float:
        """Return how old what we know of our session may be for a renewal to be worth its while.

        Whoever was just called gets in with what is left: the next proof is under way, and the next renewal soon due.
        """
        if stand is None or not stand.inside:
            return self._session.seconds / 3
        return self._session.seconds / (2 if stand.just_called else 9)

    async def _renew(self, ticket: Ticket, stand: Stand | None, started: float) -> Answer:
        if stand is None or stand.leaving:
            return Gone(GoneWhy.EXPIRED, via=self._session.via)
        await stand.renew(ticket.ttl)
        return await self._answer(stand, started, life=ticket.ttl)

    async def _answer(self, stand: Stand, started: float, *, life: float = 0.0) -> Answer:
        if stand.inside and stand.gone is None:
            await self._session.be_sure()
        if stand.gone is not None:
            self._forget(stand)
        elif stand.inside:
            stand.ends = max(stand.ends, started + life)
        answer = stand.answer(started)
        if stand.expiry is None and stand.gone is None:
            self._plan_expiry(stand)
        return answer

    def _plan_expiry(self, stand: Stand) -> None:
        delay = max(0.0, stand.ends - self._session.now())
        stand.expiry = asyncio.get_running_loop().call_later(delay, self._expire, stand)

    def _expire(self, stand: Stand) -> None:
        """Give up a ticket that was not renewed: the server would keep it as long as our session."""
        stand.expiry = None
        if stand.leaving or stand.gone is not None:
            return
        if (now := self._session.now()) < stand.ends:
            self._plan_expiry(stand)
            return
        self._tombstones.set(stand.ticket.id, GoneWhy.EXPIRED, now=now, life=_EXPIRED_LIFE)
        stand.leaving = True
        self._own(self._leave(stand))

    async def _leave(self, stand: Stand) -> None:
        await stand.leave()
        self._forget(stand)

    def _forget(self, stand: Stand) -> None:
        stand.stop()
        if self._stands.get(stand.ticket.id) is stand:
            del self._stands[stand.ticket.id]

    # --- the session -------------------------------------------------------------------------------------------

    def _session_changed(self, state: SessionState, via: int) -> None:
        self._push(StateChanged(state.value, via=via))
        if state is SessionState.CONNECTED:
            for stand in [stand for stand in self._stands.values() if stand.leaving]:
                self._own(self._leave(stand))
            self._push(Reconnected(via))
            return
        self._tree.forget_watches()
        if state is SessionState.LOST:
            for stand in list(self._stands.values()):
                stand.lose()
                self._forget(stand)

    def _on_watch(self, kind: int, path: str) -> None:
        self._tree.on_event(kind, path)

    def _push(self, call: Call) -> None:
        if self._on_call is not None:
            self._on_call(call)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        """See to work that nobody waits for. What has no answer is done again after the reconnect, or by a renewal."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, BackendError):
            task.get_loop().call_exception_handler({"message": "work of a ZooKeeper client failed", "exception": error})
