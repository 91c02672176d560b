"""The cohort: local tasks that share tickets.

Tasks of one client that want the same line with the same weight and ttl queue here on plain futures. When a ticket is
inside, its place passes from local task to local task with no round trip; the server sees one ticket for a thousand
tasks. A user's task does no I/O: it waits on its future, and being cancelled is a local act.

Alone with a key, a cohort hands on without bound. In company it does so for one batch; then the ticket leaves and a
new one stands at the end of the line, both in one round trip. `Cohort` hands a place to one task at a time,
`SharedCohort` to any number (readers).
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from aiodlock._core.fence import COUNTS
from aiodlock._core.hold import Ownership
from aiodlock._core.line import GoneWhy, LineId, Ticket
from aiodlock._core.place import INSIDE, Place
from aiodlock.errors import AcquireTimeoutError, BackendUnavailableError, LockError, TooManyWaitersError
from aiodlock.policy import Policy, Poll, Push, Retry

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine

__all__ = ["Cohort"]

T = TypeVar("T")
Waiter = asyncio.Future["Ownership | None"]  # None: not now (a try), or not in time


class Cohort:
    """Local tasks in one line with one weight and policy, and the tickets they share: at most `most` at a time."""

    def __init__(self, engine: Engine, line: LineId, *, size: int, weight: int, policy: Policy) -> None:
        self.engine = engine
        self.line = line
        self.size = size
        self.weight = weight
        self.policy = policy
        self.most = max(1, size // weight) if policy.shares else 1
        self.renews = policy.renew
        self.assumes_company = not isinstance(policy.waiting, Push) or not engine.backend.capabilities.pushes
        self.owners = engine.owners_of(line)
        self.key: tuple[object, ...] = ()  # the engine's
        self.retired = False
        self.waiters: deque[Waiter] = deque()
        self.dead = 0  # waiters that gave up and are still in the deque
        self.tries: deque[Waiter] = deque()
        self.standing: dict[Place, None] = {}
        self.inside: dict[Place, None] = {}
        self.open: list[Place] = []  # inside, and free for whoever comes
        self.runs = Combiner(self)
        self.holder: str | None = None  # who was inside at the last answer, for error messages
        self._retries_left = 0
        self._retry_planned = False

    @property
    def live(self) -> int:
        """How many local tasks wait."""
        return len(self.waiters) - self.dead

    # --- tasks come and go -------------------------------------------------------------------------------------

    def grab(self) -> Ownership | None:
        """Enter at once where a place of ours is free and nobody waits for it."""
        if self.open and not self.live:
            place, now = self.open[-1], self.engine.clock.now()
            if now < place.until:
                return self._hand_out(place, now)
        return None

    def queue(self) -> Waiter:
        """Wait behind the others."""
        waiter = self.engine.loop.create_future()
        self.waiters.append(waiter)
        if not self.inside or self.most > 1:
            self.balance()
        return waiter

    def attempt(self) -> Waiter | None:
        """Wait for one answer at most; None where it is known already that there is no free place."""
        if self.live or len(self.inside) >= self.most or any(place.answered for place in self.standing):
            return None
        waiter = self.engine.loop.create_future()
        self.tries.append(waiter)
        self.balance()
        return waiter

    def give_up(self, waiter: Waiter) -> None:
        """Take a cancelled or late waiter out; what it got meanwhile is given back."""
        if waiter.done() and not waiter.cancelled():
            if waiter.exception() is not None:
                return
            if (own := waiter.result()) is not None:
                own.end(self.engine.clock.now())
                return
        if waiter in self.tries:
            self.tries.remove(waiter)
        else:
            self.dead += 1
        self.balance()

    def give_back(self, place: Place, now: float) -> asyncio.Future[None] | None:
        """Pass on the place of an ownership that has ended; return what there is to wait for on the server."""
        if place.state is INSIDE:
            if now < place.until:
                while self.waiters:
                    waiter = self.waiters.popleft()
                    if not waiter.done():
                        waiter.set_result(self._own(place, now))
                        return None
                    self.dead -= 1
            return self._retire_place(place, now)
        return None if place.holds else place.leave()

    # --- a place reports ---------------------------------------------------------------------------------------

    def entered(self, place: Place, now: float) -> None:
        """Hear that *place* is inside: renew it first where little is left, else hand it out."""
        self.standing.pop(place, None)
        self.inside[place] = None
        self._retries_left = 0
        if place.deadline - now < place.life / 2 or not (self.renews or place.is_confirmed):
            self.engine.renew([place])
        if place.deadline - now >= place.life / 2:
            self.serve(place, now)

    def confirmed(self, place: Place) -> None:
        """Hear that *place* is inside for its full ttl."""
        if not place.served:
            self.serve(place, self.engine.clock.now())

    def serve(self, place: Place, now: float) -> None:
        """Hand a fresh place to the first who waits."""
        place.served = True
        if not self.live and self.tries:
            self.waiters.append(self.tries.popleft())
        self.give_back(place, now)
        self._answer_tries()
        self.balance()

    def told_to_wait(self, holder: str | None) -> None:
        """Hear that a ticket of ours stands in line: whoever only tried goes away."""
        self.holder = holder
        self._answer_tries()
        self.balance()

    def refused(self, place: Place, why: GoneWhy, holder: str | None) -> None:
        """Hear that a waiting ticket is gone; standing again takes a new one."""
        self.holder = holder
        self.standing.pop(place, None)
        key = self.line.key
        if why is GoneWhy.TOO_HEAVY:
            self.fail(lambda: LockError(key, f"{self.line.kind} {key!r} has no room for {self.weight}: resize it"))
        elif why is GoneWhy.FULL:
            self.fail(lambda: TooManyWaitersError(key, f"the line of {key!r} is full: try later"))
        self._answer_tries()
        if why is GoneWhy.BUSY and isinstance(self.policy.waiting, Retry) and self.live:
            self._plan_retry(self.policy.waiting)
        else:
            self.balance()

    def place_gone(self, place: Place, reason: str) -> None:
        """Hear that *place* is lost: its holds are, and those who wait need another ticket."""
        self.standing.pop(place, None)
        self._forget_inside(place)
        for own in list(place.holds):
            own.lose(reason)
        if not place.holds:
            place.leave()
        self.balance()

    def no_answer(self, place: Place) -> None:
        """Hear that the server was silent for a whole ttl."""
        self.standing.pop(place, None)
        place.leave()
        ttl, key = self.policy.ttl, self.line.key
        self.fail(
            lambda: BackendUnavailableError(f"no answer for {key!r} within its ttl of {ttl:g}s: check the server")
        )

    def company_changed(self, place: Place) -> None:
        """Hear whether others wait; a place kept in case somebody comes is then given up."""
        if place.company and place in self.open and not place.holds:
            self._let_go(place)

    def visit(self, place: Place, now: float) -> bool:
        """Look after a place inside; return whether to renew it."""
        if now >= place.deadline:
            place.lose("its lease ended before a renewal was confirmed")
            return False
        for own in list(place.holds):
            own.visit(now)
        if place.state is not INSIDE:
            return False
        if place in self.open and not place.holds and now >= place.idle_until:
            self._let_go(place)
            return False
        if place.holds and all(own.abandoned for own in place.holds):
            self.engine.watchdog.watch(place, place.deadline)
            return False
        return self.renews or not place.is_confirmed

    def over_limit(self, own: Ownership) -> None:
        """Hear that *own* was held for its longest time."""
        own.place.lose("it was held as long as max_hold allows")

    def asked_to_go(self, place: Place, reason: str) -> None:
        """Hear that somebody asks the holders to let go."""
        for own in place.holds:
            own.revocation = reason

    # --- inner -------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> int:
        """How many tickets should stand in line."""
        return min(self.live + len(self.tries), self.most - len(self.inside))

    def balance(self) -> None:
        """Have as many tickets in line as are wanted, and none when nobody is here."""
        wanted = self.wanted
        while len(self.standing) < wanted and not self._retry_planned:
            self._stand()
        while len(self.standing) > wanted:
            place, _ = self.standing.popitem()
            place.leave()
        if not (self.live or self.tries or self.standing or self.inside):
            self._retire()

    def fail(self, error: Callable[[], Exception]) -> None:
        """Give everybody who waits an error of their own."""
        for waiter in [*self.waiters, *self.tries]:
            if not waiter.done():
                waiter.set_exception(error())
        self.waiters.clear()
        self.tries.clear()
        self.dead = 0
        self.balance()

    def look_after(self, seconds: float) -> float:
        """Return how long to wait for a call before looking."""
        if isinstance(poll := self.policy.waiting, Poll):
            return min(seconds, poll.interval * random.uniform(1 - poll.jitter, 1 + poll.jitter))
        return seconds

    def _own(self, place: Place, now: float) -> Ownership:
        place.count = count = place.count + 1
        if count == COUNTS - 1:
            place.until = 0.0  # the fence's count is used up: so is the batch
        own = Ownership(self, place, count, now)
        place.holds[own] = None
        return own

    def _hand_out(self, place: Place, now: float) -> Ownership:
        self.open.remove(place)
        return self._own(place, now)

    def _stand(self, *, instead_of: Place | None = None) -> None:
        queues = not isinstance(self.policy.waiting, Retry) and self.live > 0
        place = Place(self, self._ticket(), queue=queues, instead_of=instead_of)
        self.standing[place] = None
        self.engine.places[place.ticket.id] = place
        place.join()

    def _ticket(self) -> Ticket:
        engine = self.engine
        return Ticket(self.line, engine.new_id(), self.weight, self.size, self.policy.ttl, engine.name)

    def _retire_place(self, place: Place, now: float) -> asyncio.Future[None] | None:
        """Decide what becomes of a place that is not handed on: kept a while, replaced, or left."""
        if self.live > len(self.standing):
            self._forget_inside(place)
            place.end()
            self._stand(instead_of=place)
            return None
        if not self.live and self.policy.linger and not place.company and now < place.until:
            place.idle_until = now + self.policy.linger
            self.open.append(place)
            self.engine.watchdog.watch(place, min(place.idle_until, now + place.life / 3))
            return None
        return self._let_go(place)

    def _let_go(self, place: Place) -> asyncio.Future[None]:
        self._forget_inside(place)
        left = place.leave()
        self.balance()
        return left

    def _forget_inside(self, place: Place) -> None:
        self.inside.pop(place, None)
        if place in self.open:
            self.open.remove(place)

    def _answer_tries(self) -> None:
        while self.tries:
            waiter = self.tries.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _plan_retry(self, retry: Retry) -> None:
        self._retries_left = (self._retries_left or retry.times) - 1
        if self._retries_left == 0:
            waited = retry.times * retry.interval
            self.fail(lambda: AcquireTimeoutError(self.line.key, waited=waited, holder=self.holder))
            return
        self._retry_planned = True
        self.engine.clock.call_at(self.engine.clock.now() + retry.interval, self._retry)

    def _retry(self) -> None:
        self._retry_planned = False
        self.balance()

    def _retire(self) -> None:
        if not self.retired:
            self.retired = True
            self.engine.retire(self)


class Combiner:
    """Runs the plain functions of many tasks under one ownership, in one step of the loop, for at most one batch."""

    def __init__(self, cohort: Cohort) -> None:
        self._cohort = cohort
        self._runs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._turn: Waiter | None = None

    def add(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Queue *function*; its result, or that it raised, is in the future."""
        result: asyncio.Future[T] = self._cohort.engine.loop.create_future()
        self._runs.append((function, result))
        if self._turn is None:
            self._ask_for_turn()
        return result

    def give_up(self) -> None:
        """Wait no longer when nobody is left to run for."""
        if self._turn is not None and all(result.done() for _, result in self._runs):
            turn, self._turn = self._turn, None
            self._runs.clear()
            turn.cancel()
            self._cohort.give_up(turn)

    def _ask_for_turn(self) -> None:
        if own := self._cohort.grab():
            self._turn = self._cohort.engine.loop.create_future()
            self._turn.set_result(own)
        else:
            self._turn = self._cohort.queue()
        self._turn.add_done_callback(self._combine)

    def _combine(self, turn: Waiter) -> None:
        if turn is not self._turn:
            return
        self._turn = None
        if error := turn.exception():
            self._fail(error)
        elif own := turn.result():
            try:
                self._run_batch(own)
            finally:
                own.end(self._cohort.engine.clock.now())
        if self._runs:
            self._ask_for_turn()

    def _run_batch(self, own: Ownership) -> None:
        clock = self._cohort.engine.clock
        now = clock.now()
        end = min(now + self._cohort.engine.batch, own.place.until)
        while self._runs and now < end:
            function, result = self._runs.popleft()
            if not result.done():
                _call(function, result)
                now = clock.now()

    def _fail(self, error: BaseException) -> None:
        for _, result in self._runs:
            if not result.done():
                result.set_exception(copy.copy(error))
        self._runs.clear()


def _call(function: Callable[[], T], result: asyncio.Future[T]) -> None:
    try:
        result.set_result(function())
    except StopIteration as error:  # a future cannot carry it
        result.set_exception(RuntimeError(f"the function raised {error!r}"))
    except Exception as error:
        result.set_exception(error)
