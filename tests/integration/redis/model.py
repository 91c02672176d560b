"""A line as plainly as it can be said: what the scripts are compared with.

It knows no time of its own. Each step is given the server's time before and after the verb, and every end of life is
known as an interval; when a life may or may not have ended in between, the step is `Ambiguous` and says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    Row,
    Ticket,
    TicketGone,
    TicketId,
    Waiting,
    admit,
)

EPS = 0.00001
Span = tuple[float, float]


class Ambiguous(Exception):
    """A life ended during the verb."""


@dataclass
class Stand:
    ticket: Ticket
    client: int
    weight: int
    ends: Span
    inside: bool = False
    epoch: int = 0


@dataclass
class Model:
    line: LineId
    size: int = 0
    last: int = 0
    stands: list[Stand] = field(default_factory=list)
    buried: set[TicketId] = field(default_factory=set)
    expired: set[TicketId] = field(default_factory=set)
    entered: list[Stand] = field(default_factory=list)
    told: list[tuple[int, Call]] = field(default_factory=list)  # besides those called in
    now: Span = (0.0, 0.0)

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def inside(self) -> list[Stand]:
        return [stand for stand in self.stands if stand.inside]

    @property
    def waiting(self) -> list[Stand]:
        return [stand for stand in self.stands if not stand.inside]

    def find(self, ticket_id: TicketId | None) -> Stand | None:
        return next((stand for stand in self.stands if stand.ticket.id == ticket_id), None)

    def life(self, seconds: float) -> Span:
        return self.now[0] + seconds, self.now[1] + seconds

    # --- verbs -----------------------------------------------------------------------------------------------

    def begin(self, now: Span) -> None:
        """Take away whoever died before the verb."""
        self.now, self.entered, self.told = now, [], []
        for stand in list(self.stands):
            if stand.ends[1] <= now[0]:
                self.stands.remove(stand)
                self.expired.add(stand.ticket.id)
            elif stand.ends[0] <= now[1]:
                raise Ambiguous
        self.let_in()

    def let_in(self) -> None:
        entering = admit(self.size, sum(stand.weight for stand in self.inside), (s.weight for s in self.waiting))
        for stand in self.waiting[:entering]:
            stand.inside = True
            self.entered.append(stand)

    def join(self, ticket: Ticket, client: int, *, queue: bool, instead_of: TicketId | None) -> type | GoneWhy:
        """Return the kind of answer, or why there is none."""
        if not self.stands:
            self.size = ticket.size
        self.leave(instead_of, client)
        if (stand := self.find(ticket.id)) is None:
            if why := self._refusal(ticket, queue=queue):
                return why
            stand = Stand(ticket, client, ticket.weight, self.life(ticket.waiting_life))
            self.stands.append(stand)
            self.let_in()
            if stand.inside:
                stand.ends = self.life(ticket.ttl)
            elif self.waiting[0] is stand:
                self.told += [(s.client, CompanyCame(s.ticket.id, 1)) for s in self.inside]
        elif not stand.inside and not queue:
            self.stands.remove(stand)
            return GoneWhy.BUSY
        self.keep(stand, 0.0)  # a look lengthens a waiting life only
        return Inside if stand.inside else Waiting

    def _refusal(self, ticket: Ticket, *, queue: bool) -> GoneWhy | None:
        if ticket.id in self.buried:
            return GoneWhy.BURIED
        if ticket.id in self.expired:
            return GoneWhy.EXPIRED
        if ticket.weight > self.size:
            return GoneWhy.TOO_HEAVY
        fits = not self.waiting and sum(s.weight for s in self.inside) + ticket.weight <= self.size
        return None if fits or queue else GoneWhy.BUSY

    def leave(self, ticket_id: TicketId | None, client: int) -> None:
        if stand := self.find(ticket_id):
            self.stands.remove(stand)
            if stand in self.entered:  # called and taken out in one verb: whether it had an epoch is not seen
                raise Ambiguous
            if stand.client != client:
                self.told.append((stand.client, TicketGone(stand.ticket.id, 1)))
        self.let_in()

    def bury(self, ticket_id: TicketId, client: int) -> None:
        self.buried.add(ticket_id)
        self.leave(ticket_id, client)

    def keep(self, stand: Stand, ttl: float) -> None:
        span = self.life(ttl if stand.inside else stand.ticket.waiting_life)
        stand.ends = max(stand.ends[0], span[0]), max(stand.ends[1], span[1])

    def resize(self, size: int) -> None:
        if self.stands:
            self.size = size
            for stand in [s for s in self.waiting if s.weight > size]:
                self.leave(stand.ticket.id, -1)
        self.let_in()

    # --- comparing -------------------------------------------------------------------------------------------

    def check_answer(self, ticket: Ticket, answer: Answer | None) -> None:
        stand = self.find(ticket.id)
        match answer:
            case Inside():
                assert stand
                assert stand.inside
                self._check_remaining(stand, answer.remaining)
                assert answer.company == bool(self.waiting)
                assert (answer.epoch, answer.size) == (stand.epoch, self.size)
            case Waiting():
                assert stand
                assert not stand.inside
                assert (answer.last, answer.size) == (self.last, self.size)
                assert answer.holder == (self.inside[0].ticket.owner if self.inside else None)
                self._check_look(stand, answer)
            case Gone():
                assert stand is None
            case _:
                raise AssertionError(answer)

    def _check_look(self, stand: Stand, answer: Waiting) -> None:
        ahead = self.stands.index(stand)
        if self.waiting[0] is not stand:
            assert answer.ahead >= ahead
            assert abs(answer.look_again - stand.ticket.waiting_life / 3) < EPS
            return
        assert answer.ahead == ahead
        assert answer.look_again <= min(s.ends[1] for s in self.inside) - self.now[0] + EPS
        if len(self.inside) == 1:
            assert answer.look_again >= self.inside[0].ends[0] - self.now[1] - EPS

    def _check_remaining(self, stand: Stand, remaining: float) -> None:
        assert stand.ends[0] - self.now[1] - EPS <= remaining <= stand.ends[1] - self.now[0] + EPS

    def _grant(self, stand: Stand, epoch: int) -> None:
        low, high = (int(t * 62_500) for t in self.now)
        assert max(self.last + 1, low - 1) <= epoch <= max(self.last + 1, high + 1)
        self.last = stand.epoch = epoch

    def check_calls(self, heard: list[list[Call]], own: tuple[TicketId, int] | None) -> None:
        """Compare what the clients were told with what they had to be told; *own* was told by its answer."""
        rest = [(client, call) for client, calls in enumerate(heard) for call in calls]
        for stand in self.entered:
            if own and stand.ticket.id == own[0]:
                self._grant(stand, own[1])
                continue
            (found,) = [x for x in rest if isinstance(x[1], Called) and x[1].id == stand.ticket.id]
            rest.remove(found)
            call = found[1]
            assert isinstance(call, Called)
            assert (found[0], call.line, call.company) == (stand.client, self.line, bool(self.waiting))
            self._grant(stand, call.epoch)
        for expected in self.told:
            assert expected in rest, (expected, rest)
            rest.remove(expected)
        assert rest == []

    def check_rows(self, rows: list[Row]) -> None:
        assert [(r.id, r.inside, r.weight, r.owner) for r in rows] == [
            (s.ticket.id, s.inside, s.weight, s.ticket.owner) for s in self.stands
        ]
        for row, stand in zip(rows, self.stands, strict=True):
            assert (row.epoch or 0) == stand.epoch
            self._check_remaining(stand, row.remaining)

    def check_fields(self, names: list[bytes]) -> None:
        """Nobody has a field who is neither in line nor remembered."""
        known = self.buried | self.expired | {stand.ticket.id for stand in self.stands}
        assert {name[1:].decode() for name in names if name.startswith(b"t")} <= known

    def expect_asked(self, reason: str) -> None:
        self.told += [(s.client, AskedToGo(s.ticket.id, reason, 1)) for s in self.inside]
