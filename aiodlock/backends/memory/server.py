"""The server: plain synchronous code, one method per verb, time from its clock."""

from __future__ import annotations

import fnmatch
import heapq
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from aiodlock._core.ledger import Ledger
from aiodlock._core.line import (
    Answer,
    AskedToGo,
    Call,
    Called,
    CompanyCame,
    Gone,
    GoneWhy,
    Inside,
    LineId,
    Opened,
    Row,
    Ticket,
    TicketGone,
    TicketId,
    Waiting,
    admit,
    tombstone_life,
)
from aiodlock._core.stock import Terms
from aiodlock.backends.base import Capabilities
from aiodlock.clock import Clock, SystemClock

__all__ = ["Client", "MemoryServer"]

_LAST_EPOCH_LIFE = 60.0  # a line's last epoch outlives its last ticket by this
_SWEEP_STEPS = 100  # expired tickets that one verb clears away at most
_FEW = 256
_TICKS_PER_SECOND = 62_500  # epochs never run ahead of the clock below so many grants a second


class Client(Protocol):
    """Whose ticket it is, and where its calls go."""

    @property
    def capabilities(self) -> Capabilities: ...

    def push(self, call: Call) -> None: ...


class _Stand:
    """A ticket as the server knows it."""

    __slots__ = ("client", "ends", "epoch", "serial", "since", "ticket", "weight")

    def __init__(self, ticket: Ticket, client: Client, *, now: float, serial: int) -> None:
        self.ticket = ticket
        self.client = client
        self.weight = ticket.weight
        self.serial = serial
        self.since = now
        self.ends = now + ticket.waiting_life
        self.epoch: int | None = None  # None while it waits


class _Line:
    """One line: who is inside, who waits in order of arrival, which ids are buried."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.last = 0
        self.serial = 0
        self.stands: dict[TicketId, _Stand] = {}
        self.inside: dict[TicketId, _Stand] = {}
        self.queue: OrderedDict[TicketId, _Stand] = OrderedDict()  # those who wait, oldest first
        self.lives: list[tuple[float, int, _Stand]] = []  # heap: each stand, not after its end; some have left
        self.tombstones: dict[TicketId, tuple[float, GoneWhy]] = {}  # ids that never stand again, until when, and why
        self.most_tombstones = _FEW  # until those whose time is over are looked for
        self.kept_until = 0.0

    def head(self) -> _Stand | None:
        return next(iter(self.queue.values()), None)

    def holder(self) -> str | None:
        return next((stand.ticket.owner for stand in self.inside.values()), None)

    def remove(self, stand: _Stand) -> None:
        del self.stands[stand.ticket.id]
        self.inside.pop(stand.ticket.id, None)
        self.queue.pop(stand.ticket.id, None)

    def is_over(self, now: float) -> bool:
        return not self.stands and now >= max(self.kept_until, *(until for until, _ in self.tombstones.values()), 0.0)


class _Latch:
    def __init__(self, left: int) -> None:
        self.left = left
        self.operations: set[str] = set()
        self.watchers: set[Client] = set()
        self.ends = 0.0


class MemoryServer:
    """A server in this process. Every method is one verb, done at once."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._lines: dict[LineId, _Line] = {}
        self._latches: dict[LineId, _Latch] = {}
        self._ledgers: dict[str, Ledger] = {}  # as long as the server: a stock is data, and so is its outbox
        self._most_kept = _FEW  # lines and latches, until those that are over are looked for

    def join(self, ticket: Ticket, client: Client, *, queue: bool, instead_of: TicketId | None) -> Answer:
        now = self.clock.now()
        line = self._line(ticket.line, now, size=ticket.size)
        if instead_of is not None and (old := line.stands.get(instead_of)):
            line.remove(old)
        is_new = ticket.id not in line.stands
        refusal = self._refuse(line, ticket, now, most=client.capabilities.most_tickets) if is_new else None
        if is_new and not refusal:
            self._stand(line, ticket, client, now)
        self._call_in(line, now, quiet=ticket.id if is_new else None)
        answer = refusal or self._look(line, ticket, now)
        if isinstance(answer, Waiting):
            if not queue:
                line.remove(line.stands[ticket.id])
                return Gone(GoneWhy.BUSY, holder=answer.holder)
            if is_new and line.head() is line.stands[ticket.id]:
                self._tell_company(line)
        return answer

    def leave(self, ticket: Ticket, client: Client | None, *, bury: bool) -> None:
        now = self.clock.now()
        line = self._line(ticket.line, now, size=ticket.size)
        if bury:
            line.tombstones[ticket.id] = now + tombstone_life(ticket.ttl), GoneWhy.BURIED
        if stand := line.stands.get(ticket.id):
            line.remove(stand)
            if stand.client is not client:
                stand.client.push(TicketGone(ticket.id))
        self._call_in(line, now)

    def renew(self, tickets: Sequence[Ticket]) -> list[Answer | None]:
        now = self.clock.now()
        return [self._renew(ticket, now) for ticket in tickets]

    def inspect(self, kind: str, pattern: str) -> list[Row]:
        now = self.clock.now()
        return [
            _row(stand, now)
            for line_id, line in list(self._lines.items())
            if kind in ("*", line_id.kind) and fnmatch.fnmatchcase(line_id.key, pattern)
            for stand in [*line.inside.values(), *line.queue.values()]
            if stand.ends > now
        ]

    def change_weight(self, ticket: Ticket, weight: int) -> Answer:
        now = self.clock.now()
        line = self._line(ticket.line, now, size=ticket.size)
        stand = line.stands.get(ticket.id)
        if stand is None or stand.epoch is None or stand.ends <= now:
            return Gone(GoneWhy.EXPIRED)
        stand.weight = min(stand.weight, weight)
        self._call_in(line, now)
        return self._look(line, ticket, now)

    def change_size(self, line_id: LineId, size: int) -> None:
        now = self.clock.now()
        line = self._line(line_id, now, size=size)
        line.size = size
        for stand in [stand for stand in line.queue.values() if stand.weight > size]:
            line.remove(stand)
            stand.client.push(TicketGone(stand.ticket.id))
        self._call_in(line, now)

    def revoke(self, line_id: LineId, reason: str) -> int:
        line = self._line(line_id, self.clock.now(), size=1)
        for stand in line.inside.values():
            stand.client.push(AskedToGo(stand.ticket.id, reason))
        return len(line.inside)

    def latch(self, line_id: LineId, client: Client, *, count: int, down: int, operation: str, ttl: float) -> int:
        now = self.clock.now()
        latch = self._latches.get(line_id)
        if latch is None or latch.ends <= now:
            self._forget_lines(now)
            latch = self._latches[line_id] = _Latch(count)
        latch.ends = max(latch.ends, now + ttl)
        latch.watchers.add(client)
        if down and latch.left and operation not in latch.operations:
            latch.operations.add(operation)
            latch.left = max(0, latch.left - down)
            if not latch.left:
                for watcher in latch.watchers:
                    watcher.push(Opened(line_id))
        return latch.left

    def ledger(self, terms: Terms) -> Ledger:
        """Return the stock of a key; its first use sets the terms, until it was closed and is over."""
        ledger = self._ledgers.setdefault(terms.key, Ledger(terms))
        if ledger.is_over(self.clock.now()):
            ledger.begin(terms)
        return ledger

    def forget(self, client: Client) -> None:
        """Stop telling *client* of latches; its tickets live on until they leave or end."""
        for latch in self._latches.values():
            latch.watchers.discard(client)

    # --- inside a verb -----------------------------------------------------------------------------------------

    def _line(self, line_id: LineId, now: float, *, size: int) -> _Line:
        """Return the line, swept; the first join of an empty line sets its size."""
        line = self._lines.get(line_id)
        if line is None or line.is_over(now):
            self._forget_lines(now)
            line = self._lines[line_id] = _Line(size)
        elif not line.stands:
            line.size = size
        self._sweep(line, now)
        return line

    def _forget_lines(self, now: float) -> None:
        """Forget what is over, each time their number has doubled: a new line then costs the same however many are."""
        if len(self._lines) + len(self._latches) < self._most_kept:
            return
        self._lines = {name: line for name, line in self._lines.items() if not line.is_over(now)}
        self._latches = {name: latch for name, latch in self._latches.items() if latch.ends > now}
        self._most_kept = max(_FEW, 2 * (len(self._lines) + len(self._latches)))

    def _sweep(self, line: _Line, now: float) -> None:
        swept = False
        for _ in range(_SWEEP_STEPS):
            if not line.lives or line.lives[0][0] > now:
                break
            _, serial, stand = heapq.heappop(line.lives)
            if line.stands.get(stand.ticket.id) is not stand:
                continue
            if stand.ends > now:
                heapq.heappush(line.lives, (stand.ends, serial, stand))
            else:
                line.remove(stand)
                line.tombstones[stand.ticket.id] = now + _LAST_EPOCH_LIFE, GoneWhy.EXPIRED
                swept = True
        if len(line.tombstones) >= line.most_tombstones:
            line.tombstones = {name: (until, why) for name, (until, why) in line.tombstones.items() if until > now}
            line.most_tombstones = max(_FEW, 2 * len(line.tombstones))
        if swept:
            self._call_in(line, now)

    def _refuse(self, line: _Line, ticket: Ticket, now: float, *, most: int) -> Gone | None:
        until, why = line.tombstones.get(ticket.id, (0.0, GoneWhy.BURIED))
        if until > now:
            return Gone(why)
        if ticket.weight > line.size:
            return Gone(GoneWhy.TOO_HEAVY)
        if len(line.stands) >= most:
            return Gone(GoneWhy.FULL, line.holder())
        return None

    def _stand(self, line: _Line, ticket: Ticket, client: Client, now: float) -> None:
        line.serial += 1
        stand = line.stands[ticket.id] = _Stand(ticket, client, now=now, serial=line.serial)
        line.queue[ticket.id] = stand
        if len(line.lives) > 2 * len(line.stands) + _FEW:
            line.lives = [life for life in line.lives if line.stands.get(life[2].ticket.id) is life[2]]
            heapq.heapify(line.lives)
        heapq.heappush(line.lives, (stand.ends, stand.serial, stand))

    def _call_in(self, line: _Line, now: float, *, quiet: TicketId | None = None) -> None:
        """Let in whoever now fits, in the same step; call them, except *quiet*, whose answer says it."""
        weight = sum(stand.weight for stand in line.inside.values())
        entering = admit(line.size, weight, (stand.weight for stand in line.queue.values()))
        called = [line.queue.popitem(last=False)[1] for _ in range(entering)]
        for stand in called:
            line.last = stand.epoch = max(line.last + 1, int(now * _TICKS_PER_SECOND))
            line.kept_until = now + _LAST_EPOCH_LIFE
            line.inside[stand.ticket.id] = stand
        company = line.head() is not None
        for stand in called:
            if stand.ticket.id == quiet:
                stand.ends = now + stand.ticket.ttl
            else:
                stand.client.push(Called(stand.ticket.line, stand.ticket.id, stand.epoch or 0, company))
        line.kept_until = now + _LAST_EPOCH_LIFE

    def _look(self, line: _Line, ticket: Ticket, now: float) -> Answer:
        stand = line.stands.get(ticket.id)
        if stand is None or stand.ends <= now:
            return Gone(GoneWhy.EXPIRED)
        if stand.epoch is not None:
            return Inside(stand.epoch, stand.ends - now, company=line.head() is not None, size=line.size)
        stand.ends = now + ticket.waiting_life
        head = line.head() or stand
        look_again = ticket.waiting_life / 3
        if head is stand:
            look_again = min((other.ends - now for other in line.inside.values()), default=look_again)
        ahead = len(line.inside) + stand.serial - head.serial
        return Waiting(ahead, max(0.0, look_again), line.last, line.holder(), size=line.size)

    def _renew(self, ticket: Ticket, now: float) -> Answer:
        line = self._line(ticket.line, now, size=ticket.size)
        stand = line.stands.get(ticket.id)
        if stand is not None and stand.epoch is not None and stand.ends > now:
            stand.ends = max(stand.ends, now + ticket.ttl)
        return self._look(line, ticket, now)

    def _tell_company(self, line: _Line) -> None:
        for stand in line.inside.values():
            stand.client.push(CompanyCame(stand.ticket.id))


def _row(stand: _Stand, now: float) -> Row:
    line, inside = stand.ticket.line, stand.epoch is not None
    return Row(
        kind=line.kind,
        key=line.key,
        id=stand.ticket.id,
        owner=stand.ticket.owner,
        inside=inside,
        weight=stand.weight,
        since=now - stand.since,
        remaining=stand.ends - now,
        epoch=stand.epoch,
    )
