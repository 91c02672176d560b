"""The tickets of a cohort: as many stand in line as those who wait can use, and none when nobody is here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiodlock._core.line import GoneWhy, LineId, Ticket
from aiodlock._core.place import Place
from aiodlock._core.retries import Retries
from aiodlock._core.waiters import Waiters
from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError, LockError, TooManyWaitersError
from aiodlock.events import SizeDiffered
from aiodlock.policy import Policy, Poll, Retry

if TYPE_CHECKING:
    from aiodlock._core.cohort import Shape
    from aiodlock._core.combine import Combiner
    from aiodlock._core.engine import Engine

__all__ = ["Tickets"]


class Tickets(Waiters):
    """What a cohort knows of its tickets, at most `most` at a time, and what the server says to those in line.

    The lower half of `Cohort`, and of nothing else: that is what the two casts without a call mean.
    """

    __slots__ = (
        "_retries",
        "_wish",
        "holder",
        "inside",
        "line",
        "most",
        "open",
        "policy",
        "retired",
        "runs",
        "shape",
        "size",
        "standing",
    )

    def __init__(self, engine: Engine, line: LineId, *, shape: Shape, policy: Policy) -> None:
        super().__init__(engine)
        self.line = line
        self.shape = shape
        self.policy = policy
        self.size = shape.size  # of the line, as last heard
        self._wish = engine.wish(line, shape.weight, shape.size, policy.ttl, engine.name)
        self.most = self._at_most(shape.size)
        self.retired = False  # whoever comes asks for another
        self.standing: dict[Place, None] = {}
        self.inside: dict[Place, None] = {}
        self.open: list[Place] = []  # inside, and free for whoever comes
        self.runs: Combiner | None = None
        self.holder: str | None = None  # who was inside at the last answer, for error messages
        self._retries = Retries(self, policy.waiting) if isinstance(policy.waiting, Retry) else None

    def wanted(self) -> int:
        """Return how many tickets should stand in line."""
        here, room = self.live() + len(self.tries), self.most - len(self.inside)
        return here if here < room else max(0, room)

    def balance(self) -> None:
        """Have as many tickets in line as are wanted, and none when nobody is here."""
        if self.waiters or self.tries or self.standing:
            wanted = self.wanted()
            while len(self.standing) < wanted and not (self._retries and self._retries.is_pausing):
                self._stand()
            while len(self.standing) > wanted:
                place, _ = self.standing.popitem()
                place.leave()
        if self.waiters or self._retries is not None:
            self._rest()

    def fail(self, error: Callable[[], Exception]) -> None:
        """Give everybody who waits an error of their own."""
        self.tell_all(error)
        self.balance()

    def look_after(self, seconds: float) -> float:
        """Return how long to wait for a call before looking."""
        if isinstance(poll := self.policy.waiting, Poll):
            return min(seconds, poll.interval * random.uniform(1 - poll.jitter, 1 + poll.jitter))
        return seconds

    def disown(self, place: Place) -> None:
        """Have nothing more to do with a place that was inside."""
        self.inside.pop(place, None)
        if self.open and place in self.open:
            self.open.remove(place)

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds, waits or tries here."""
        return not (self.inside or self.standing or self.tries or self.live() or (self.runs and self.runs.is_busy))

    # --- a place in line reports --------------------------------------------------------------------------------

    def told_to_wait(self, holder: str | None) -> None:
        """Hear that a ticket of ours stands in line: whoever only tried goes away."""
        self.holder = holder
        self.answer_tries()
        self.balance()

    def refused(self, place: Place, why: GoneWhy, holder: str | None) -> None:
        """Hear that a waiting ticket is gone; standing again takes a new one."""
        self.holder = holder
        self.standing.pop(place, None)
        key = self.line.key
        if why is GoneWhy.TOO_HEAVY:
            self.fail(self._too_heavy)
        elif why is GoneWhy.FULL:
            self.fail(lambda: TooManyWaitersError(key, f"the line of {key!r} is full: try later"))
        self.answer_tries()
        if why is GoneWhy.BUSY and self._retries is not None and self.live():
            if not self.standing:  # each of them was a part of the same try
                self._retries.count()
        else:
            self.balance()

    def unconfirmed(self, place: Place) -> None:
        """Hear that too few replicas know of a ticket: it leaves, and another stands in its stead after a pause."""
        self.standing.pop(place, None)
        place.leave()
        if len(self.standing) < self.wanted():
            self._stand(failed=place)
        else:
            self.balance()

    def no_answer(self, place: Place) -> None:
        """Hear that the server was silent for a whole ttl."""
        self.standing.pop(place, None)
        place.leave()
        hint = f"no answer for {self.line.key!r} within its ttl of {self.policy.ttl:g}s: check the server"
        self.fail(lambda: _caused(BackendUnavailableError(hint), place.failure))

    def failed(self, place: Place) -> None:
        """Hear that the server cannot do what is asked: waiting would not help."""
        self.standing.pop(place, None)
        place.leave()
        failure = place.failure
        error = type(failure) if isinstance(failure, BackendDataError) else BackendError
        self.fail(lambda: _caused(error(f"{self.line.kind} {self.line.key!r}: {failure}"), failure))

    def hear_size(self, size: int) -> None:
        """Hear that the line has another size than ours said."""
        if size == self.shape.size or self.size == self.shape.size:
            self.engine.emit(SizeDiffered(*self.line, self.shape.size, size))
        if size < self.size:
            for place in self.inside:  # every ticket has to stand again, else they are handed on and all stay
                place.asked_to_go = True
                place.set_until()
        self.size = size
        self.most = self._at_most(size)
        if self.shape.weight > size:
            self.fail(self._too_heavy)
        else:
            self.balance()

    # --- inner -------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Keep nothing of those who were here, where nobody is left."""
        if not (self.live() or self.tries):
            self.forget_dead()
            if self._retries is not None:
                self._retries.stop()

    def _at_most(self, size: int) -> int:
        return max(1, size // self.shape.weight) if self.policy.shares else 1

    def _stand(self, instead_of: Place | None = None, failed: Place | None = None) -> None:
        """Stand in line with a new ticket, after a pause where it is one more try of a place that *failed*."""
        engine, now, new_id = self.engine, self.engine.now, self.engine.new_id
        if engine.fallback is not None and engine.fallback.lends(self.policy.ttl):
            new_id = engine.fallback.lend
        ticket = Ticket(self._wish, new_id())
        queues = self._retries is None and (not self.tries or self.live() > 0)  # who only tries does not stay in line
        sent_at, verb = now(), None
        if failed is None:  # It is sent first of all: what is done meanwhile costs whoever waits no time.
            old = instead_of.ticket.id if instead_of is not None else None
            verb = engine.backend.join(ticket, queue=queues, instead_of=old)
        place = Place(self, ticket, queues, instead_of, sent_at)  # type: ignore[arg-type]
        self.standing[place] = None
        engine.places[ticket.id] = place
        if verb is not None:
            place.joining(verb, sent_at)
        elif failed is not None:
            place.join_later(failed)

    def _too_heavy(self) -> LockError:
        line, weight = self.line, self.shape.weight
        return LockError(line.key, f"{line.kind} {line.key!r} has no room for {weight}: resize it")


def _caused(error: Exception, cause: Exception | None) -> Exception:
    error.__cause__ = cause
    return error
