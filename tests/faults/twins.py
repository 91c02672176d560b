"""Broken twins of the library: each leaves out one rule that a fault needs. Those of the protocol are the fuzz's."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from aiodlock._core.cohort import Cohort
from aiodlock._core.engine import Engine
from aiodlock._core.line import Call, Called, LineId, Reconnected
from aiodlock._core.place import INSIDE, Place
from aiodlock.backends.redis import backend, confirmed, council
from aiodlock.backends.redis.cluster_route import Cluster
from aiodlock.backends.redis.master import Master
from aiodlock.backends.redis.scripts import Script, load
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendError
from tests.fuzz.twins import Change, counted_from_answer, no_burying

__all__ = ["TWINS"]

_numbers = itertools.count()


def another_id_each_time() -> Change:
    """A join without an answer is sent again as if it were the first: under a new id."""
    join = Place.join

    def join_anew(self: Place) -> None:
        if self.unanswered:
            del self.engine.places[self.ticket.id]
            self.ticket = replace(self.ticket, id=self.engine.new_id())
            self.engine.places[self.ticket.id] = self
        join(self)

    return Place, "join", join_anew


def leaves_once() -> Change:
    """A leave without an answer is not sent again."""
    left = Place._left
    return Place, "_left", lambda self, answer: left(self, None if isinstance(answer, BackendError) else answer)


def never_looks() -> Change:
    """Who waits relies on being called."""
    return Cohort, "look_after", lambda self, seconds: 3600.0


def reconnects_blindly() -> Change:
    """After a new connection nobody looks what was missed."""
    on_call = Engine.on_call

    def on_other_call(self: Engine, call: Call) -> None:
        if not isinstance(call, Reconnected):
            on_call(self, call)

    return Engine, "on_call", on_other_call


def every_call_counts() -> Change:
    """A call hands the place out, also when it has been handed out already."""
    called = Place.called

    def called_again(self: Place, call: Called) -> None:
        was = self.state
        called(self, call)
        if was is INSIDE and (waiter := self.cohort.next_waiter()) is not None:
            waiter.set_result(self.cohort._hold(self.cohort, self, self.engine.now()))

    return Place, "called", called_again


def never_loads() -> Change:
    """A script that the server does not know is not sent to it."""
    refused = Link._refused

    def refused_for_good(self: Link, request: Any, error: str) -> None:
        request.script = None
        refused(self, request, error)

    return Link, "_refused", refused_for_good


def never_asks() -> Change:
    """A silent connection is taken for a quiet one."""
    return Link, "_check", lambda self: None


def counts_again() -> Change:
    """A latch is counted down under a new id each time the request is sent."""
    latch = backend.RedisBackend.latch

    def latch_anew(
        self: backend.RedisBackend, line: LineId, *, count: int, down: int, operation: str, ttl: float
    ) -> Awaitable[int]:
        return latch(self, line, count=count, down=down, operation=f"{operation}-{next(_numbers)}", ttl=ttl)

    return backend.RedisBackend, "latch", latch_anew


def takes_memory() -> Change:
    """A renewal begins with a write that could take memory."""
    text = load("renew").text.replace("take_no_memory()\nlocal answers", "local answers")
    return backend, "_RENEW", Script.of("renew", text)


def follows_nobody() -> Change:
    """A line that has moved to another server of a cluster is not looked for there."""
    refused = Cluster._refused

    def refused_is_failed(self: Cluster, spot: Any, request: Any, error: str) -> bool:
        return request.script is None and refused(self, spot, request, error)

    return Cluster, "_refused", refused_is_failed


def needs_all() -> Change:
    """Redlock is content with nothing less than every server."""
    return council, "majority_of", lambda servers: servers


def believes_unconfirmed() -> Change:
    """What too few replicas have is believed all the same."""
    return confirmed, "doubted", lambda answer: answer


def owes_nothing() -> Change:
    """One of the servers of Redlock that has not confirmed a leave is not told again."""
    return Master, "pay_debts", lambda self: None


TWINS = {
    twin.__name__: twin
    for twin in (
        another_id_each_time,
        believes_unconfirmed,
        counted_from_answer,
        counts_again,
        every_call_counts,
        follows_nobody,
        leaves_once,
        needs_all,
        never_asks,
        never_loads,
        never_looks,
        no_burying,
        owes_nothing,
        reconnects_blindly,
        takes_memory,
    )
}
