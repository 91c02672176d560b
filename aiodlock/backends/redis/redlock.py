"""Redlock as a backend: a ticket is inside when a majority of independent servers has it inside.

Nobody stands in line: what cannot be had from a majority at once is given back everywhere and tried again after a
random delay, or when a server says that the line may be free. So there is no order, and company is assumed. Each try
takes an id of its own, so that a request of an earlier one that arrives late finds itself buried.

The fence is the largest of the majority's epochs, written back to a majority before the ticket counts as inside: any
later majority shares a server with it, and is told a larger one.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from aiodlock._core.line import (
    Answer,
    AskedToGo,
    Call,
    Gone,
    GoneWhy,
    Inside,
    LineId,
    Opened,
    Reconnected,
    Row,
    Ticket,
    TicketGone,
    TicketId,
    Waiting,
    tombstone_life,
)
from aiodlock.backends.base import Capabilities, Finding, OnCall
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.council import Council
from aiodlock.backends.redis.hosts import urls_of_hosts
from aiodlock.backends.redis.master import Master
from aiodlock.backends.redis.report import combine, gather_reports, judge_servers
from aiodlock.backends.redis.stand import Stand, base_id
from aiodlock.errors import BackendUnavailableError, ConfigurationError, UnsupportedError

__all__ = ["RedlockBackend"]

_FEWEST = 3
_OF_REPLICAS = frozenset({"replicas", "min-replicas"})
_AFTER_BATCH = (0.01, 0.03)  # how long who had its turn lets others try
_AFTER_HINT = (0.0, 0.01)  # spreads those who hear that the line may be free


class RedlockBackend:
    """One client's connections to independent Redis servers, none of which knows of the others.

    *limit*: the longest that one server is waited for, in seconds; less where the lease is short. *retry_delay*: how
    long to wait, on average, before trying again without having been told that the line may be free. *pushes*: whether
    to be told. The rest is as for `RedisBackend`.
    """

    capabilities = Capabilities(kinds=frozenset({"lock", "rwlock"}), pushes=False, ordered=False)

    def __init__(
        self,
        servers: Sequence[Address],
        *,
        prefix: str = "aiodlock",
        name: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
        limit: float = 0.2,
        retry_delay: float = 0.1,
    ) -> None:
        if len({str(server) for server in servers}) < max(_FEWEST, len(servers)):
            raise ConfigurationError("Redlock needs three or more different servers, best an odd number of them")
        if not (limit > 0 and retry_delay > 0):
            raise ConfigurationError(f"limit={limit!r}, retry_delay={retry_delay!r}: give seconds greater than 0")
        scheme = "redlocks" if servers[0].tls else "redlock"
        self.address = f"{scheme}://" + ",".join(sorted(str(server).partition("://")[2] for server in servers))
        masters = [Master(server, prefix=prefix, name=name, pushes=pushes, patience=patience) for server in servers]
        self._council = Council(masters, limit=limit, patience=patience)
        self._retry_delay = retry_delay
        self._on_call: OnCall | None = None
        self._stands: dict[TicketId, Stand] = {}
        self._ended: list[tuple[float, TicketId]] = []  # a heap: stands that nobody needs after that time

    @classmethod
    def from_url(cls, url: str, *, unverified: bool = False, **settings: Any) -> RedlockBackend:
        """Return the backend of ``redlock://h1,h2,h3`` or, with TLS, ``redlocks://h1,h2,h3``."""
        urls = urls_of_hosts(url, "rediss" if url.startswith("redlocks:") else "redis")
        return cls([Address.from_url(one, unverified=unverified) for one in urls], **settings)

    async def open(self, on_call: OnCall) -> None:
        """Connect with a majority, or raise; the others are tried again in the background."""
        self._on_call = on_call
        for number, master in enumerate(self._council.masters):
            await master.open(partial(self._hear, number))
        await self.ping()

    async def aclose(self) -> None:
        self._on_call = None
        for stand in self._stands.values():
            stand.forget_hint()
        self._stands.clear()
        await self._council.aclose()

    def ping(self) -> Awaitable[None]:
        return self._council.ping()

    async def diagnose(self) -> Sequence[Finding]:
        """Look at every server; none of them needs a replica, which would take over without what it has not got."""
        looks = {master.address: master.diagnose() for master in self._council.masters}
        reports = await gather_reports(looks)
        needed, otherwise = self._council.majority, "without a majority nothing is acquired"
        found = [finding for finding in combine(reports) if finding.what not in _OF_REPLICAS]
        return [judge_servers([*reports], [*looks], needed=needed, otherwise=otherwise), *found]

    # --- the verbs -------------------------------------------------------------------------------------------

    async def join(self, ticket: Ticket, *, queue: bool = True, instead_of: TicketId | None = None) -> Answer:
        """Try to get a majority; with *queue*, wait a while for the next try instead of being gone.

        With *instead_of* that ticket leaves first, and the new one does not try before others had the time to.
        """
        self._forget_ended()
        stand = self._stands.setdefault(ticket.id, Stand(ticket))
        if instead_of is not None:
            await self.leave(replace(ticket, id=instead_of))
        async with stand.turn:
            if instead_of is not None and queue and not (stand.tries or stand.is_over):
                return Waiting(1, random.uniform(*_AFTER_BATCH), 0)
            return _told(ticket, await self._look(stand, ticket, queue=queue))

    async def leave(self, ticket: Ticket, *, bury: bool = False) -> None:
        """Leave everywhere; done when a majority has confirmed it, repeated where it was not as long as it may matter.

        A buried id is remembered here: each try is buried where it may still arrive.
        """
        stand = self._stands.get(ticket.id)
        if stand is None and not bury:
            await self._council.leave_others(ticket)
            return
        stand = stand or self._stands.setdefault(ticket.id, Stand(ticket))
        stand.is_over = True
        stand.forget_hint()
        try:
            if stand.tries:
                await self._council.leave(stand)
        except BackendUnavailableError:
            self._forget_later(ticket.id, ticket.ttl)  # until then it can be left again, by the ids it knows
            raise
        if bury:
            self._forget_later(ticket.id, tombstone_life(ticket.ttl))
        else:
            self._stands.pop(ticket.id, None)

    async def renew(self, tickets: Sequence[Ticket]) -> Sequence[Answer | None]:
        """Renew what is inside, and try again for what is not; each has its answer from a majority, or none."""
        answers: dict[TicketId, Answer | None] = {ticket.id: Gone(GoneWhy.EXPIRED) for ticket in tickets}
        known = [(self._stands[ticket.id], ticket) for ticket in tickets if ticket.id in self._stands]
        held = [(stand, ticket) for stand, ticket in known if stand.epoch]
        others = [(stand, ticket) for stand, ticket in known if not stand.epoch]
        tries = (self._look_again(stand, ticket) for stand, ticket in others)
        of_held, of_others = await asyncio.gather(self._council.renew(held), asyncio.gather(*tries))
        for (_, ticket), answer in zip((*held, *others), (*of_held, *of_others), strict=True):
            answers[ticket.id] = answer
        return [answers[ticket.id] for ticket in tickets]

    def inspect(self, kind: str, pattern: str) -> Awaitable[Sequence[Row]]:
        return self._council.inspect(kind, pattern)

    async def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        stand = self._stands.get(ticket.id)
        if stand is None or not stand.epoch:
            return Gone(GoneWhy.EXPIRED)
        return _told(ticket, await self._council.change_weight(stand, weight))

    async def change_size(self, line: LineId, size: int) -> None:
        raise UnsupportedError("Redlock has locks and read-write locks only: their lines have no other size")

    def revoke(self, line: LineId, reason: str) -> Awaitable[int]:
        return self._council.revoke(line, reason)

    async def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> int:
        raise UnsupportedError("Redlock has no latches: use one server, or a cluster")

    # --- looking ---------------------------------------------------------------------------------------------

    async def _look(self, stand: Stand, ticket: Ticket, *, queue: bool) -> Answer | None:
        """Renew what is inside, else try; whose turn it is to try for this stand is the caller's to see to."""
        if stand.is_over:
            return Gone(GoneWhy.BURIED)
        if stand.epoch:
            return (await self._council.renew([(stand, ticket)]))[0]
        answer = await self._council.let_in(stand)
        if isinstance(answer, Gone) and not queue:
            self._stands.pop(ticket.id, None)  # whoever only tried does not leave
        if isinstance(answer, Inside) or not queue or stand.is_over:
            return answer
        self._council.hang_up(ticket)
        return Waiting(1, self._retry_delay * random.uniform(0.5, 1.5), 0, answer.holder)

    async def _look_again(self, stand: Stand, ticket: Ticket) -> Answer | None:
        async with stand.turn:
            stand.forget_hint()
            try:
                return await self._look(stand, ticket, queue=True)
            except BackendUnavailableError:
                return None

    # --- calls -----------------------------------------------------------------------------------------------

    def _hear(self, number: int, call: Call) -> None:
        """Take what one server says: a majority of them makes a word of ours."""
        match call:
            case Reconnected():
                self._council.masters[number].pay_debts()
                self._tell(Reconnected())
            case Opened(line=line):
                for stand in [stand for stand in self._stands.values() if stand.waits_for(line)]:
                    stand.hint(random.uniform(*_AFTER_HINT), self._tell)
            case TicketGone(id=id_) if mine := self._stand_of(id_):
                mine.lost.add(number)
                if self._council.is_lost(mine):
                    self._tell(TicketGone(mine.ticket.id))
            case AskedToGo(id=id_, reason=reason) if mine := self._stand_of(id_):
                if mine.is_asked_anew(number, reason, self._council.majority):
                    self._tell(AskedToGo(mine.ticket.id, reason))
            case _:
                pass  # of a try that is over

    def _stand_of(self, one: TicketId) -> Stand | None:
        stand = self._stands.get(base_id(one))
        return stand if stand is not None and stand.current == one else None

    def _tell(self, call: Call) -> None:
        if self._on_call is not None:
            self._on_call(call)

    def _forget_later(self, id_: TicketId, seconds: float) -> None:
        heapq.heappush(self._ended, (asyncio.get_running_loop().time() + seconds, id_))

    def _forget_ended(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._ended and self._ended[0][0] <= now:
            self._stands.pop(heapq.heappop(self._ended)[1], None)


def _told(ticket: Ticket, answer: Answer | None) -> Answer:
    if answer is None:
        raise BackendUnavailableError(f"{ticket.line.key!r}: too many of the servers are silent to tell")
    return answer
