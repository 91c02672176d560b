"""Independent servers as one: all are asked at once, and what a majority answers is the answer."""

from __future__ import annotations

import asyncio
import glob
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from aiodlock._core.line import Answer, Gone, GoneWhy, Inside, LineId, Row, Ticket, TicketId, Waiting
from aiodlock.backends.base import as_future
from aiodlock.backends.redis.master import Master
from aiodlock.backends.redis.quorum import Votes, gather_votes, largest, majority_of
from aiodlock.backends.redis.stand import Stand, base_id
from aiodlock.errors import BackendUnavailableError, QuorumError

__all__ = ["Council"]

_T = TypeVar("_T")

_PER_TTL = 8  # a server that takes longer than this part of the lease is not waited for
_CLOSING = 1.0  # how long closing waits for a server that has not confirmed a leave


class Council:
    """The servers of one client. One that is silent is waited for *limit* seconds, less where a lease is short."""

    def __init__(self, masters: Sequence[Master], *, limit: float, patience: float) -> None:
        self.masters = masters
        self.majority = majority_of(len(masters))
        self._limit = limit
        self._patience = patience

    async def ping(self) -> None:
        """Be answered by a majority, or raise."""
        votes = await gather_votes(self._all(Master.ping), self._is_enough_heard, limit=self._patience)
        if len(heard := _heard(votes)) < self.majority:
            raise self._too_few(heard) from next((vote for vote in votes.values() if vote is not None), None)

    async def aclose(self) -> None:
        """Leave again what a minority has not confirmed, for a moment at most; then let go of the servers."""

        async def let_go(master: Master) -> None:
            await master.settle(within=_CLOSING)
            await master.aclose()

        await asyncio.gather(*map(let_go, self.masters))

    # --- getting in, and out again ---------------------------------------------------------------------------

    async def let_in(self, stand: Stand) -> Inside | Gone:
        """Try once, by an id of its own: have a majority and its fence written back, or leave everywhere."""
        self.pay_debts()
        there = {number: master for number, master in enumerate(self.masters) if master.is_up}
        one = stand.next_try(there)
        asked = {number: as_future(master.join(one, queue=False)) for number, master in there.items()}
        for number, answer in asked.items():
            answer.add_done_callback(partial(stand.answered, number, one.id))
        is_hopeless = partial(self._is_hopeless, len(asked))
        heard = _heard(await self._ask(asked, one, self._is_enough_inside, is_hopeless))
        inside = _inside(heard)
        if len(inside) >= self.majority and (got := await self._write_back(stand, one, inside)):
            return got
        self._give_back(stand, one)
        if len(heard) < self.majority:
            raise self._too_few(heard)
        holders = (vote.holder for vote in heard.values() if isinstance(vote, Gone) and vote.holder)
        return Gone(GoneWhy.BUSY, next(holders, None))

    async def _write_back(self, stand: Stand, one: Ticket, inside: dict[int, Inside]) -> Inside | None:
        """Let a majority know the largest epoch, so that none after it is smaller; then, and only then, we are in."""
        epoch = max(answer.epoch for answer in inside.values())
        known = {number: answer for number, answer in inside.items() if answer.epoch == epoch}
        asked = {number: self.masters[number].raise_epoch(one, epoch) for number in inside.keys() - known.keys()}
        wanted = self.majority - len(known)
        votes = await self._ask(asked, one, lambda votes: len(_inside(votes)) >= wanted)
        agreed = known.keys() | _inside(votes).keys()
        if len(agreed) < self.majority or stand.is_over:
            return None
        stand.epoch = epoch
        return Inside(epoch, largest([inside[number].remaining for number in agreed], self.majority))

    def _give_back(self, stand: Stand, one: Ticket) -> dict[int, asyncio.Future[None]]:
        """Leave wherever it may be inside, and bury it where that is in doubt; what is not confirmed is owed."""
        return {n: self.masters[n].leave_for_sure(one, bury=n in stand.doubt) for n in stand.anywhere}

    def pay_debts(self) -> None:
        """Leave again what was not confirmed."""
        for master in self.masters:
            master.pay_debts()

    async def leave(self, stand: Stand) -> None:
        """Leave everywhere and tell who waits; raise unless a majority confirms it. The others are owed it."""
        one = replace(stand.ticket, id=stand.current)
        others = {n: master.leave(one) for n, master in enumerate(self.masters) if n not in stand.anywhere}
        asked = {**others, **self._give_back(stand, one)}
        self.ring(one.line)
        heard = _heard(await self._ask(asked, one, self._is_enough_heard))
        if len(heard) < self.majority:
            raise self._too_few(heard)

    async def leave_others(self, ticket: Ticket) -> None:
        """Make a ticket of another client leave, by whatever ids its tries have."""

        async def leave(master: Master) -> None:
            for row in await master.inspect(ticket.line.kind, glob.escape(ticket.line.key)):
                if ticket.id == base_id(row.id):
                    await master.leave(replace(ticket, id=row.id))
            master.ring(ticket.line)

        self._quorum(await gather_votes(self._all(leave), limit=self._limit), ticket.line.key)

    def hang_up(self, ticket: Ticket) -> None:
        """Ask every server to tell when the ticket's line may be free."""
        for master in self.masters:
            master.hang_up(ticket.line, life=ticket.waiting_life)

    def ring(self, line: LineId) -> None:
        """Let every server tell those who asked that *line* may be free."""
        for master in self.masters:
            master.ring(line)

    # --- staying in ------------------------------------------------------------------------------------------

    async def renew(self, held: Sequence[tuple[Stand, Ticket]]) -> list[Answer | None]:
        """Renew what was let in, in one call for each server; one that has lost a ticket is not joined again."""
        self.pay_debts()
        if not held:
            return []
        ones = [replace(ticket, id=stand.current) for stand, ticket in held]

        def is_decided(votes: Votes[Sequence[Answer | None]]) -> bool:
            tables = _heard(votes).values()
            return all(sum(isinstance(table[i], Inside) for table in tables) >= self.majority for i in range(len(ones)))

        asked = self._all(lambda master: master.renew(ones))
        votes = await self._ask(asked, min(ones, key=lambda one: one.ttl), is_decided)
        tables = _heard(votes)
        return [
            self._judge(stand, {n: answers[i] for n, answers in tables.items() if n not in stand.lost})
            for i, (stand, _) in enumerate(held)
        ]

    async def change_weight(self, stand: Stand, weight: int) -> Answer | None:
        """Give what was let in a smaller weight, and tell who waits."""
        one = replace(stand.ticket, id=stand.current)
        asked = {n: m.change_weight(one, weight) for n, m in enumerate(self.masters) if n not in stand.lost}
        votes = await self._ask(asked, one, self._is_enough_inside)
        self.ring(one.line)
        return self._judge(stand, votes)

    def is_lost(self, stand: Stand) -> bool:
        """Whether too few servers are left that may have it inside."""
        return len(self.masters) - len(stand.lost) < self.majority

    def _judge(self, stand: Stand, votes: Mapping[int, object]) -> Answer | None:
        """Say what a majority knows of a ticket that was inside; None if too many are silent to tell."""
        inside = _inside(votes)
        stand.lost |= {number for number, answer in votes.items() if isinstance(answer, Gone | Waiting)}
        if len(inside) >= self.majority:
            return Inside(stand.epoch, largest([answer.remaining for answer in inside.values()], self.majority))
        return Gone(GoneWhy.EXPIRED) if self.is_lost(stand) else None

    # --- looking ---------------------------------------------------------------------------------------------

    async def inspect(self, kind: str, pattern: str) -> list[Row]:
        """Return what a majority has inside; a ticket that is left on fewer is nobody's."""
        asked = self._all(lambda master: master.inspect(kind, pattern))
        found: dict[TicketId, list[Row]] = {}
        for rows in self._quorum(await gather_votes(asked, limit=self._patience), pattern):
            for row in rows:
                found.setdefault(row.id, []).append(row)
        return [self._agreed(rows) for rows in found.values() if len(rows) >= self.majority]

    async def revoke(self, line: LineId, reason: str) -> int:
        """Ask those inside to go; return how many a majority asked."""
        asked = self._all(lambda master: master.revoke(line, reason))
        counts = self._quorum(await gather_votes(asked, limit=self._limit), line.key)
        return int(largest(counts, self.majority))

    def _agreed(self, rows: list[Row]) -> Row:
        """Return what the majority knows: the epoch that was written back, and how long it lives there."""
        epoch, _ = Counter(row.epoch for row in rows).most_common(1)[0]
        remaining = largest([row.remaining for row in rows], self.majority)
        return replace(rows[0], id=base_id(rows[0].id), epoch=epoch, remaining=remaining)

    # --- asking ----------------------------------------------------------------------------------------------

    def _all(self, verb: Callable[[Master], Awaitable[_T]]) -> dict[int, Awaitable[_T]]:
        return {number: verb(master) for number, master in enumerate(self.masters)}

    def _ask(
        self, asked: Mapping[int, Awaitable[_T]], ticket: Ticket, *is_over: Callable[[Votes[_T]], bool]
    ) -> Awaitable[Votes[_T]]:
        return gather_votes(asked, *is_over, limit=min(self._limit, ticket.ttl / _PER_TTL))

    def _is_enough_inside(self, votes: Mapping[int, object]) -> bool:
        return len(_inside(votes)) >= self.majority

    def _is_hopeless(self, asked: int, votes: Mapping[int, object]) -> bool:
        return asked - len(votes) + len(_inside(votes)) < self.majority

    def _is_enough_heard(self, votes: Mapping[int, object]) -> bool:
        return len(_heard(votes)) >= self.majority

    def _quorum(self, votes: Votes[_T], key: str) -> list[_T]:
        heard = list(_heard(votes).values())
        if len(heard) < self.majority:
            raise QuorumError(key, f"{key!r}: {self._too_few(heard)}")
        return heard

    def _too_few(self, heard: Mapping[int, object] | Sequence[object]) -> BackendUnavailableError:
        of = f"{len(heard)} of {len(self.masters)} servers answered"
        return BackendUnavailableError(f"{of}, {self.majority} are needed: check those that are silent")


def _heard(votes: Mapping[int, _T | Exception]) -> dict[int, _T]:
    return {number: vote for number, vote in votes.items() if not isinstance(vote, Exception)}


def _inside(votes: Mapping[int, object]) -> dict[int, Inside]:
    return {number: vote for number, vote in votes.items() if isinstance(vote, Inside)}
