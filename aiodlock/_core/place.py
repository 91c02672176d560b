"""A place: one ticket of ours, and what we know of it.

A ticket only moves waiting → inside → gone. Answers and calls may be lost, late, doubled, or overtake each other, so
each of them is believed by these rules alone (design.md, sections 1 and 7):

- what is sent may always be sent again; validity counts from before the send;
- a late ``Waiting`` moves nothing back;
- a call counts only over the connection of the last answer, with an epoch above the one told there, and where the
  backend trusts calls at all; otherwise: look;
- a join without an answer leaves the id in doubt for good: leaving then buries it.
"""

from __future__ import annotations

import enum
import math
import random
from asyncio import Future
from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, Final

from aiodlock._core.fence import COUNT_BITS, LAST_COUNT
from aiodlock._core.line import Answer, Called, Gone, GoneWhy, Inside, Ticket, Waiting, deadline_of
from aiodlock.errors import BackendError, BackendUnavailableError
from aiodlock.events import LeaveUnconfirmed

if TYPE_CHECKING:
    from aiodlock._core.cohort import Cohort
    from aiodlock._core.hold import Hold

__all__ = ["Place", "PlaceState"]

SHORTEST_LOOK = 0.001  # a server that says "at once" again and again is not asked in a hot loop
THIRD, SLACK = 1 / 3, 1 / 32  # of a life: when it is renewed, and how much before; to divide each time is dear
MOST_OVERRUN = 0.9  # of a batch that was too long: the next one is not too short for a section to begin
_NOT_HEARD = -1
FIRST_PAUSE = 0.02  # before a verb without an answer is sent again; doubles, up to a third of the life


class PlaceState(enum.Enum):
    WAITING = "waiting"
    INSIDE = "inside"
    GONE = "gone"


WAITING: Final = PlaceState.WAITING
INSIDE: Final = PlaceState.INSIDE
GONE: Final = PlaceState.GONE


class Place:
    """The client's side of one ticket. It follows the protocol; its cohort decides what to do with it."""

    __slots__ = (
        "asked_since",
        "asked_to_go",
        "believed_at",
        "cohort",
        "company",
        "company_since",
        "deadline",
        "engine",
        "failure",
        "fence",
        "holds",
        "idle_until",
        "instead_of",
        "joined_at",
        "last",
        "lease_until",
        "left",
        "life",
        "over_at",
        "pauses",
        "queue",
        "rare_from",
        "slot",
        "state",
        "ticket",
        "unanswered",
        "until",
        "via",
    )

    # Inside, from `_enter` on
    fence: int  # of the last ownership handed out
    rare_from: int  # from this fence on there is more to an ownership than to hand it out
    deadline: float  # until when we believe that we are inside
    until: float  # until when we may hand it on here

    def __init__(self, cohort: Cohort, ticket: Ticket, queue: bool, instead_of: Place | None, joined_at: float) -> None:
        self.cohort = cohort
        self.engine = cohort.engine
        self.ticket = ticket
        self.queue = queue  # whether to stay in line where it is not free
        self.instead_of = instead_of  # what leaves in the same step
        self.state = WAITING  # then INSIDE by `_enter`, and GONE for good by `end`
        self.life = cohort.waiting_life  # the present life: short while waiting and just called, then ttl
        # Inside
        self.holds: Collection[Hold] = ()
        self.lease_until = math.inf  # when a lease that is not renewed ends, whatever shorter lives the server gives
        self.idle_until = math.inf  # kept that long although nobody is inside
        self.company_since = 0.0
        self.company = self.asked_to_go = False
        # Protocol
        self.joined_at = joined_at  # before the first join that may still be answered was sent
        self.asked_since: float | None = joined_at  # first request since the last answer
        self.failure: BackendError | None = None  # of the last request without an answer
        self.believed_at = 0.0  # when the last request answered Waiting was sent
        self.last = 0  # the line's last epoch, as told then
        self.over_at = 0.0  # when the server has surely ended the ticket, if nothing more is sent
        self.pauses = self.unanswered = 0  # unanswered: joins without an answer; the id is in doubt
        self.via = _NOT_HEARD  # the connection of the last answer
        self.slot: float | None = None  # the watchdog's
        self.left: Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Place {self.ticket.line.key!r} {self.ticket.id[:6]} {self.state.value} holds={len(self.holds)}>"

    @property
    def answered(self) -> bool:
        """Whether the server has ever told where we stand."""
        return self.via != _NOT_HEARD

    # --- what we send ------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Send the join, again if need be: with the same id, and with the leaving it may stand for."""
        sent_at, old = self.engine.now(), self.instead_of
        if not self.unanswered:
            self.joined_at = sent_at
        verb = self.engine.backend.join(self.ticket, queue=self.queue, instead_of=old.ticket.id if old else None)
        self.joining(verb, sent_at)

    def joining(self, verb: Awaitable[Answer], sent_at: float) -> None:
        """See a join through. However often it is sent, an answer counts from before the first time."""
        engine, life = self.engine, self.life
        self.over_at = sent_at + self.ticket.wish.ttl
        self.unanswered += 1
        engine.watchdog.watch(self, sent_at + THIRD * life, SLACK * life)
        engine.work.see(verb, self._joined)

    def join_later(self, failed: Place) -> None:
        """Send the join after a pause, as one more try of a place that *failed* without a valid answer."""
        self.asked_since, self.pauses = failed.asked_since, failed.pauses
        self._plan_retry()

    def look(self) -> None:
        """Ask where we stand: by renewing once there was an answer, by joining before it."""
        if self.answered:
            self.engine.renew([self])
        else:
            self.join()

    def leave(self) -> Future[None]:
        """Give the place up for good; the future is done when the server confirmed it, or its life is over."""
        if self.left is None:
            engine = self.engine
            self._send_leave()  # first: somebody may wait for it
            self.left = Future(loop=engine.loop)
            self.end()
            engine.leaving.add(self)
            if self.instead_of is not None:
                self.instead_of.leave()  # whether it left with our join is not known
        return self.left

    def end(self) -> None:
        """Know nothing more of this ticket; whoever calls this sees to its leaving."""
        if self.state is not GONE:
            engine, self.state = self.engine, GONE
            if engine.fallback is not None:
                engine.fallback.ended(self)
            engine.watchdog.forget(self)
            engine.places.pop(self.ticket.id, None)

    def renewal(self, ttl: float) -> tuple[Ticket, float, bool]:
        """Return the ticket to renew, the instant before it is sent, and whether we know it inside."""
        sent_at, inside = self.engine.now(), self.state is INSIDE
        self.over_at = max(self.over_at, sent_at + ttl)
        if self.asked_since is None:
            self.asked_since = sent_at
        again = sent_at + self.life / 6
        self.engine.watchdog.watch(self, min(again, self.last_moment) if inside else again)
        ticket = self.ticket if ttl == self.ticket.ttl else self.ticket.wishing(ttl=ttl)
        return ticket, sent_at, inside

    def next_life(self) -> float:
        """Return for how long to renew it: its ttl, or what is left of a lease that is not to grow."""
        if self.cohort.renews or self.state is not INSIDE:
            return self.ticket.ttl
        now = self.engine.now()
        if self.lease_until == math.inf:
            self.lease_until = now + self.ticket.ttl
        return max(SHORTEST_LOOK, self.lease_until - now)

    # --- what we hear ------------------------------------------------------------------------------------------

    def called(self, call: Called) -> None:
        """Hear that we are inside, if that can be believed; otherwise look."""
        if self.state is INSIDE:
            self.hear_company(call.company)
        elif self.engine.trusts_calls and self.answered and call.via == self.via and call.epoch > self.last:
            life = self.ticket.waiting_life
            if call.company:
                self.company = True
            self._enter(call.epoch, life, deadline_of(self.believed_at, life), self.engine.now())
        else:
            self.look()

    def hear_company(self, company: bool) -> None:
        """Hear whether others wait behind us."""
        if company == self.company:
            return
        self.company, self.company_since = company, self.engine.now()
        if self.state is INSIDE:  # else it was told before the answer that we are
            self.set_until()
            self.cohort.company_changed(self)

    def renewed(self, sent_at: float, knew_inside: bool, answer: Answer | BackendError | None) -> None:
        """Hear the answer to a renewal; one that says less than we know means that the server forgot."""
        if self.state is GONE:
            return
        if answer is None or isinstance(answer, BackendError):
            self.failure = answer
            self._plan_retry()
        elif knew_inside and isinstance(answer, Waiting):
            self.lose("the server forgot it")
        else:
            self._hear(sent_at, self.engine.now(), answer)

    def lose(self, reason: str) -> None:
        """Stop believing in this ticket: it is renewed no more, passed to nobody, left when its blocks have ended."""
        if self.state is not GONE:
            self.end()
            self.cohort.place_gone(self, reason)

    def visit(self, now: float) -> bool:
        """Do what is due; return whether to renew."""
        if self.asked_since is not None and self.engine.fallback is not None:
            self.engine.fallback.doubt(self)
        if self.state is INSIDE:
            if now < self.last_moment and (self.deadline - now > 0.7 * self.life or not self.is_renewed):
                self.plan_visit(now)  # this one was planned for its join, and is too early
                return False
            is_due = self.cohort.visit(self, now)
            if not is_due and self.state is INSIDE and self.slot is None:
                self.plan_visit(now)  # a fixed lease: somebody has to notice its end
            return is_due
        if self.state is GONE:
            self._send_leave()
        elif self.asked_since is not None and self._can_have_another():
            self.lose("its server is silent")
        elif self.asked_since is not None and now - self.asked_since >= self.ticket.ttl:
            self.cohort.no_answer(self)
        elif self.answered:
            return True
        else:
            self.join()
        return False

    # --- inside ------------------------------------------------------------------------------------------------

    @property
    def is_confirmed(self) -> bool:
        """Whether a fixed lease has its full ttl; a called one has only what is left of its waiting life."""
        return self.deadline > self.lease_until - 0.1 * self.ticket.ttl - 0.01

    @property
    def was_served(self) -> bool:
        """Whether it was ever handed out."""
        return self.fence & LAST_COUNT != 0

    @property
    def is_used_up(self) -> bool:
        """Whether the count of its fence is used up: so is the batch."""
        return self.fence & LAST_COUNT == LAST_COUNT

    @property
    def is_renewed(self) -> bool:
        """Whether it will be renewed: a fixed lease only until it has its full ttl."""
        return self.cohort.renews or not self.is_confirmed

    @property
    def last_moment(self) -> float:
        """When it has to be visited at the latest: its life ends, or somebody's time inside, or its idleness."""
        if not self.holds:
            return min(self.deadline, self.idle_until)
        return min(self.deadline, min((own._limit for own in self.holds if own._loss is None), default=math.inf))

    def end_count(self) -> None:
        """End the batch if the count of the fence is used up."""
        if self.is_used_up:
            self.until = 0.0

    def set_until(self) -> None:
        """Say how long it may be handed on here: not in the last third of its life and, in company, for one batch."""
        until = self.deadline - THIRD * self.life
        if self.is_used_up or self.asked_to_go:
            until = 0.0
        if self.company or self.cohort.assumes_company:
            until = min(until, self.company_since + self.engine.batch * (1 - self.cohort.overrun))
        self.until = until

    @property
    def overrun(self) -> float:
        """By which part of a batch it was handed on too long: its last section began in time and ended late."""
        if not self.until or not (self.company or self.cohort.assumes_company):
            return 0.0
        return min(max(0.0, self.engine.now() - self.until) / self.engine.batch, MOST_OVERRUN)

    def plan_visit(self, now: float) -> None:
        """Be visited when a third of the life is over, at its end, or when somebody's time inside is over."""
        due, third = self.last_moment, THIRD * self.life
        renewal, slack = self.deadline - 2 * third, SLACK * self.life
        if renewal <= now + slack:  # it had little left when it was called, or the last renewal gave it nothing
            renewal = now + third
        if self.is_renewed and renewal < due:
            self.engine.watchdog.watch(self, renewal, slack)
        else:
            self.engine.watchdog.watch(self, due)

    # --- inner -------------------------------------------------------------------------------------------------

    def _joined(self, answer: Answer | BackendError) -> None:
        if isinstance(answer, BackendError):
            if self.state is WAITING:  # else this one was sent again, and the first has its answer
                self._failed_to_join(answer)
            return
        engine, clock, sent_at = self.engine, self.engine.now, self.joined_at
        now = clock()
        self.unanswered -= 1
        self.instead_of = None
        if not self.pauses:  # an outage is no part of a grant
            engine.grant += (now - sent_at - engine.grant) * 0.125
        if self.state is not GONE:
            self._hear(sent_at, now, answer)

    def _failed_to_join(self, failure: BackendError) -> None:
        self.failure = failure
        if isinstance(failure, BackendUnavailableError):
            self._plan_retry()
        else:
            self.cohort.failed(self)  # the server has answered, and would say the same again

    def _hear(self, sent_at: float, now: float, answer: Answer) -> None:
        if isinstance(answer, Gone):
            self._refused(answer)
            return
        self.asked_since = None
        self.pauses = 0
        self.via = answer.via
        cohort = self.cohort
        if answer.size != cohort.size and answer.size:
            cohort.hear_size(answer.size)
        state = self.state
        if isinstance(answer, Waiting):
            if state is WAITING:
                self._wait(sent_at, now, answer)
            return
        deadline = deadline_of(sent_at, answer.remaining)
        if state is WAITING:
            if not cohort.renews:
                self.lease_until = self.over_at  # counted from the last request, so that an outage does not shorten it
            if answer.company:
                self.company = True
            self._enter(answer.epoch, answer.remaining, deadline, now)
        elif state is INSIDE:  # unless hearing of another size made it leave
            self._stay(deadline, answer)

    def _wait(self, sent_at: float, now: float, answer: Waiting) -> None:
        self.believed_at = max(self.believed_at, sent_at)
        self.last = answer.last
        look_again = max(SHORTEST_LOOK, self.cohort.look_after(min(answer.look_again, THIRD * self.life)))
        self.engine.watchdog.watch(self, now + look_again)
        self.cohort.told_to_wait(answer.holder)

    def _refused(self, answer: Gone) -> None:
        if answer.why is GoneWhy.UNCONFIRMED:
            if not self.answered:  # else it was confirmed once, and this says nothing
                self.cohort.unconfirmed(self)
        elif self.state is INSIDE:
            self.lose(f"refused by the server: {answer.why.value}")
        else:
            if self.unanswered:
                self.leave()  # a join still on its way must not make it stand again
            else:
                self.end()
            self.cohort.refused(self, answer.why, answer.holder)

    def _enter(self, epoch: int, life: float, deadline: float, now: float) -> None:
        if deadline <= now:
            self.look()  # what we know is too old to be believed
            return
        if self.engine.fallback is not None and not self.engine.fallback.lets_in(self):
            self.lose("a task of ours is inside on the other server")
            return
        self.state = INSIDE
        self.fence = first = epoch << COUNT_BITS
        self.rare_from = first if self.engine.is_loud else first + LAST_COUNT
        self.life, self.deadline, self.company_since = life, deadline, now
        self.until = deadline - THIRD * life
        if self.company or self.asked_to_go or self.cohort.assumes_company:
            self.set_until()
        if self.slot is None or self.slot > deadline - 0.6 * life:  # planned for its join, late for a shorter life
            self.plan_visit(now)
        self.cohort.entered(self, now)

    def _stay(self, deadline: float, answer: Inside) -> None:
        if deadline > self.deadline:
            self.life, self.deadline = answer.remaining, deadline
        self.hear_company(answer.company)
        if self.state is INSIDE:
            self.set_until()
            self.plan_visit(self.engine.now())
            self.cohort.confirmed(self)

    def _can_have_another(self) -> bool:
        """Whether whoever waits here can have a ticket of the other server."""
        return self.engine.fallback is not None and self.engine.fallback.is_misplaced(self)

    def _plan_retry(self) -> None:
        if self.engine.fallback is not None:
            self.engine.fallback.doubt(self)
        pause = min(FIRST_PAUSE * 2**self.pauses, self.life / 6) * random.uniform(0.5, 1.0)
        self.pauses = min(self.pauses + 1, 20)
        due = self.engine.now() + pause
        self.engine.watchdog.watch(self, min(due, self.last_moment) if self.state is INSIDE else due)

    def _send_leave(self) -> None:
        verb = self.engine.backend.leave(self.ticket, bury=self.unanswered > 0)
        self.engine.work.see(verb, self._left)

    def _left(self, answer: BackendError | None) -> None:
        engine = self.engine
        if answer is not None:
            if not engine.is_over and engine.now() < self.over_at:
                self._plan_retry()
                return
            engine.emit(LeaveUnconfirmed(*self.ticket.line))
        left = self.left
        engine.leaving.discard(self)
        if left is not None and not left.done():
            give = engine.give
            give(left, None)
