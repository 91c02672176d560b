"""Redlock as a backend: a ticket is inside when a majority of independent servers has it inside.

Nobody stands in line: what cannot be had from a majority at once is given back everywhere and tried again after a
random delay, or when a server says that the line may be free. So there is no order, and company is assumed. Each try
takes an id of its own, so that a request of an earlier one that arrives late finds itself buried.

The fence is the largest of the majority's epochs, written back to a majority before the ticket counts as inside: any
later majority shares a server with it, and is told a larger one.
"""

from __future__ import annotations

import asyncio
import glob
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeVar

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
from aiodlock.backends.base import Capabilities, OnCall
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.hosts import urls_of_hosts
from aiodlock.backends.redis.master import Master
from aiodlock.backends.redis.quorum import Votes, gather_votes, largest, majority_of
from aiodlock.backends.redis.stand import Stand, base_id
from aiodlock.errors import BackendUnavailableError, ConfigurationError, QuorumError, UnsupportedError

__all__ = ["RedlockBackend"]

_T = TypeVar("_T")

_FEWEST = 3
_AFTER_BATCH = (0.01, 0.03)  # how long who had its turn lets others try
_AFTER_HINT = (0.0, 0.01)  # spreads those who hear that the line may be free
_PER_TTL = 8  # a server that takes longer than this part of the lease is not waited for


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
        self.address = "redlock://" + ",".join(sorted(str(server).partition("://")[2] for server in servers))
        self._masters = [
            Master(server, prefix=prefix, name=name, pushes=pushes, patience=patience) for server in servers
        ]
        self._majority = majority_of(len(servers))
        self._patience = patience
        self._limit = limit
        self._retry_delay = retry_delay
        self._on_call: OnCall | None = None
        self._stands: dict[TicketId, Stand] = {}
        self._ended: deque[tuple[float, TicketId]] = deque()  # stands that nobody needs after that time

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        prefix: str = "aiodlock",
        pushes: bool = True,
        patience: float = 3.0,
        limit: float = 0.2,
        retry_delay: float = 0.1,
    ) -> RedlockBackend:
        """Return the backend of ``redlock://h1,h2,h3``."""
        servers = [Address.from_url(one) for one in urls_of_hosts(url, "redis")]
        return cls(servers, prefix=prefix, pushes=pushes, patience=patience, limit=limit, retry_delay=retry_delay)

    async def open(self, on_call: OnCall) -> None:
        """Connect with a majority, or raise; the others are tried again in the background."""
        self._on_call = on_call
        for number, master in enumerate(self._masters):
            await master.open(partial(self._hear, number))
        await self.ping()

    async def aclose(self) -> None:
        self._on_call = None
        for stand in self._stands.values():
            stand.forget_hint()
        self._stands.clear()
        await asyncio.gather(*(master.aclose() for master in self._masters))

    async def ping(self) -> None:
        asked = {number: master.ping() for number, master in enumerate(self._masters)}
        votes = await gather_votes(asked, lambda votes: len(_heard(votes)) >= self._majority, limit=self._patience)
        if len(heard := _heard(votes)) < self._majority:
            raise self._too_few(heard) from next((vote for vote in votes.values() if vote is not None), None)

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
            if stand.is_over:
                return Gone(GoneWhy.BURIED)
            if instead_of is not None and queue and not stand.tries:
                return Waiting(1, random.uniform(*_AFTER_BATCH), 0)
            if stand.epoch:
                answer = (await self._renew_held([(stand, ticket)]))[0]
                return answer if answer is not None else self._fail(ticket)
            return await self._try(stand, queue=queue)

    async def leave(self, ticket: Ticket, *, bury: bool = False) -> None:
        """Leave everywhere; done when a majority has confirmed it. Whoever hung up at the bell is told.

        A buried id is remembered here: each try is buried where it may still arrive.
        """
        stand = self._stands.get(ticket.id)
        if stand is None and not bury:
            await self._leave_others(ticket)
            return
        stand = stand or self._stands.setdefault(ticket.id, Stand(ticket))
        stand.is_over = True
        stand.forget_hint()
        if stand.tries:
            self._pay_debts(stand)
            await self._leave_everywhere(stand)
        if bury:
            self._forget_later(ticket.id, tombstone_life(ticket.ttl))
        else:
            self._stands.pop(ticket.id, None)

    async def _leave_everywhere(self, stand: Stand) -> None:
        one = replace(stand.ticket, id=stand.current)
        asked = {n: master.leave(one, bury=n in stand.doubt) for n, master in enumerate(self._masters)}
        for master in self._masters:
            master.ring(one.line)
        heard = _heard(await self._ask(asked, one, lambda votes: len(_heard(votes)) >= self._majority))
        if len(heard) < self._majority:
            self._forget_later(stand.ticket.id, stand.ticket.ttl)
            raise self._too_few(heard)

    async def _leave_others(self, ticket: Ticket) -> None:
        """Make a ticket of another client leave, by whatever ids its tries have."""

        async def leave(master: Master) -> None:
            for row in await master.inspect(ticket.line.kind, glob.escape(ticket.line.key)):
                if ticket.id == base_id(row.id):
                    await master.leave(replace(ticket, id=row.id))
            master.ring(ticket.line)

        asked = {number: leave(master) for number, master in enumerate(self._masters)}
        self._quorum(await gather_votes(asked, _never, limit=self._limit), ticket.line.key)

    async def renew(self, tickets: Sequence[Ticket]) -> Sequence[Answer | None]:
        """Renew what is inside, and try again for what is not; each has its answer from a majority, or none."""
        answers: dict[TicketId, Answer | None] = {}
        held, others = list[tuple[Stand, Ticket]](), list[Ticket]()
        for ticket in tickets:
            stand = self._stands.get(ticket.id)
            if stand is None:
                answers[ticket.id] = Gone(GoneWhy.EXPIRED)
            elif stand.epoch:
                held.append((stand, ticket))
            else:
                others.append(ticket)
        of_held, of_others = await asyncio.gather(self._renew_held(held), self._try_all_again(others))
        answers |= {ticket.id: answer for (_, ticket), answer in zip(held, of_held, strict=True)}
        answers |= {ticket.id: answer for ticket, answer in zip(others, of_others, strict=True)}
        return [answers[ticket.id] for ticket in tickets]

    async def inspect(self, kind: str, pattern: str) -> Sequence[Row]:
        """Return what a majority has inside; a ticket that is left on fewer is nobody's."""
        asked = {number: master.inspect(kind, pattern) for number, master in enumerate(self._masters)}
        votes = await gather_votes(asked, _never, limit=self._patience)
        tables = self._quorum(votes, pattern)
        found: dict[TicketId, list[Row]] = {}
        for row in (row for rows in tables for row in rows):
            found.setdefault(row.id, []).append(replace(row, id=base_id(row.id)))
        return [self._agreed(rows) for rows in found.values() if len(rows) >= self._majority]

    async def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        stand = self._stands.get(ticket.id)
        if stand is None or not stand.epoch:
            return Gone(GoneWhy.EXPIRED)
        one = replace(ticket, id=stand.current)
        asked = {n: self._masters[n].change_weight(one, weight) for n in stand.left_of(len(self._masters))}
        answer = self._judge(stand, await self._ask(asked, ticket, self._is_enough_inside))
        for master in self._masters:
            master.ring(ticket.line)
        return answer if answer is not None else self._fail(ticket)

    async def change_size(self, line: LineId, size: int) -> None:
        raise UnsupportedError("Redlock has locks and read-write locks only: their lines have no other size")

    async def revoke(self, line: LineId, reason: str) -> int:
        asked = {number: master.revoke(line, reason) for number, master in enumerate(self._masters)}
        counts = self._quorum(await gather_votes(asked, _never, limit=self._limit), line.key)
        return int(largest([*counts, *[0] * len(self._masters)], self._majority))

    async def latch(self, line: LineId, *, count: int, down: int, operation: str, ttl: float) -> int:
        raise UnsupportedError("Redlock has no latches: use one server, or a cluster")

    # --- getting in ------------------------------------------------------------------------------------------

    async def _try(self, stand: Stand, *, queue: bool) -> Answer:
        if stand.is_over:
            return Gone(GoneWhy.BURIED)
        one = stand.next_try(len(self._masters))
        asked = {n: asyncio.ensure_future(master.join(one, queue=False)) for n, master in enumerate(self._masters)}
        for number, answer in asked.items():
            answer.add_done_callback(partial(stand.answered, number, one.id))
        heard = _heard(await self._ask(asked, one, self._is_enough_inside))
        inside = _inside(heard)
        if len(inside) >= self._majority and (got := await self._write_back(stand, one, inside)):
            return got
        stand.owe()
        self._pay_debts(stand)
        if len(heard) < self._majority:
            raise self._too_few(heard)
        holder = next((vote.holder for vote in heard.values() if isinstance(vote, Gone) and vote.holder), None)
        if not queue or stand.is_over:
            return Gone(GoneWhy.BUSY, holder)
        for master in self._masters:
            master.hang_up(one.line, life=one.waiting_life)
        return Waiting(1, self._retry_delay * random.uniform(0.5, 1.5), 0, holder)

    async def _write_back(self, stand: Stand, one: Ticket, inside: dict[int, Inside]) -> Inside | None:
        """Let a majority know the largest epoch, so that none after it is smaller; then, and only then, we are in."""
        epoch = max(answer.epoch for answer in inside.values())
        known = {number: answer for number, answer in inside.items() if answer.epoch == epoch}
        asked = {number: self._masters[number].raise_epoch(one, epoch) for number in inside.keys() - known.keys()}
        wanted = self._majority - len(known)
        votes = await self._ask(asked, one, lambda votes: len(_inside(votes)) >= wanted)
        agreed = known.keys() | _inside(votes).keys()
        if len(agreed) < self._majority or stand.is_over:
            return None
        stand.epoch = epoch
        return Inside(epoch, largest([inside[number].remaining for number in agreed], self._majority))

    def _pay_debts(self, stand: Stand) -> None:
        """Leave what failed without waiting for it; what is not confirmed is left again with the next try."""
        for (number, id_), bury in stand.debts.items():
            leaving = asyncio.ensure_future(self._masters[number].leave(replace(stand.ticket, id=id_), bury=bury))
            leaving.add_done_callback(partial(stand.paid, (number, id_)))

    async def _try_all_again(self, tickets: Sequence[Ticket]) -> list[Answer | None]:
        return await asyncio.gather(*map(self._try_again, tickets))

    async def _try_again(self, ticket: Ticket) -> Answer | None:
        stand = self._stands[ticket.id]
        async with stand.turn:
            stand.forget_hint()
            self._pay_debts(stand)
            if stand.epoch:  # another look was quicker
                return (await self._renew_held([(stand, ticket)]))[0]
            try:
                return await self._try(stand, queue=True)
            except BackendUnavailableError:
                return None

    # --- staying in ------------------------------------------------------------------------------------------

    async def _renew_held(self, held: Sequence[tuple[Stand, Ticket]]) -> list[Answer | None]:
        """Renew these on every server, in one call each; a server that lost a ticket is not joined again."""
        if not held:
            return []
        ones = [replace(ticket, id=stand.current) for stand, ticket in held]
        asked = {number: master.renew(ones) for number, master in enumerate(self._masters)}
        votes = await self._ask(asked, min((ticket for _, ticket in held), key=lambda ticket: ticket.ttl), _never)
        tables = _heard(votes)
        return [
            self._judge(stand, {n: answers[i] for n, answers in tables.items() if n not in stand.lost})
            for i, (stand, _) in enumerate(held)
        ]

    def _judge(self, stand: Stand, votes: Mapping[int, object]) -> Answer | None:
        """Say what a majority knows of a ticket that was inside; None if too many are silent to tell."""
        inside = _inside(votes)
        stand.lost |= {number for number, answer in votes.items() if isinstance(answer, Gone | Waiting)}
        if len(inside) >= self._majority:
            return Inside(stand.epoch, largest([answer.remaining for answer in inside.values()], self._majority))
        if self._is_lost(stand):
            return Gone(GoneWhy.EXPIRED)
        return None

    def _is_lost(self, stand: Stand) -> bool:
        return len(self._masters) - len(stand.lost) < self._majority

    # --- calls -----------------------------------------------------------------------------------------------

    def _hear(self, number: int, call: Call) -> None:
        """Take what one server says: a majority of them makes a word of ours."""
        match call:
            case Reconnected():
                self._tell(Reconnected())
            case Opened(line=line):
                for stand in [stand for stand in self._stands.values() if stand.waits_for(line)]:
                    stand.hint(random.uniform(*_AFTER_HINT), self._tell)
            case TicketGone(id=id_) if mine := self._stand_of(id_):
                mine.lost.add(number)
                if self._is_lost(mine):
                    self._tell(TicketGone(mine.ticket.id))
            case AskedToGo(id=id_, reason=reason) if mine := self._stand_of(id_):
                if mine.is_asked_anew(number, reason, self._majority):
                    self._tell(AskedToGo(mine.ticket.id, reason))
            case _:
                pass  # of a try that is over

    def _stand_of(self, one: TicketId) -> Stand | None:
        stand = self._stands.get(base_id(one))
        return stand if stand is not None and stand.current == one else None

    def _tell(self, call: Call) -> None:
        if self._on_call is not None:
            self._on_call(call)

    # --- asking ----------------------------------------------------------------------------------------------

    def _ask(
        self, asked: Mapping[int, Awaitable[_T]], ticket: Ticket, is_decided: Callable[[Votes[_T]], bool]
    ) -> Awaitable[Votes[_T]]:
        return gather_votes(asked, is_decided, limit=min(self._limit, ticket.ttl / _PER_TTL))

    def _is_enough_inside(self, votes: Mapping[int, object]) -> bool:
        return len(_inside(votes)) >= self._majority

    def _quorum(self, votes: Votes[_T], key: str) -> list[_T]:
        heard = list(_heard(votes).values())
        if len(heard) < self._majority:
            raise QuorumError(key, f"{key!r}: {self._too_few(heard)}")
        return heard

    def _too_few(self, heard: Mapping[int, object] | Sequence[object]) -> BackendUnavailableError:
        of = f"{len(heard)} of {len(self._masters)} servers answered"
        return BackendUnavailableError(f"{of}, {self._majority} are needed: check those that are silent")

    def _fail(self, ticket: Ticket) -> NoReturn:
        raise BackendUnavailableError(
            f"{ticket.line.key!r}: too many of {len(self._masters)} servers are silent to tell"
        )

    def _forget_later(self, id_: TicketId, seconds: float) -> None:
        self._ended.append((asyncio.get_running_loop().time() + seconds, id_))

    def _forget_ended(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._ended and self._ended[0][0] <= now:
            self._stands.pop(self._ended.popleft()[1], None)

    def _agreed(self, rows: list[Row]) -> Row:
        """Return what the majority knows: the epoch that was written back, and how long it lives there."""
        epoch, _ = Counter(row.epoch for row in rows).most_common(1)[0]
        return replace(rows[0], epoch=epoch, remaining=largest([row.remaining for row in rows], self._majority))


def _heard(votes: Mapping[int, _T | Exception]) -> dict[int, _T]:
    return {number: vote for number, vote in votes.items() if not isinstance(vote, Exception)}


def _inside(votes: Mapping[int, object]) -> dict[int, Inside]:
    return {number: vote for number, vote in votes.items() if isinstance(vote, Inside)}


def _never(votes: Mapping[int, object]) -> bool:
    return False
