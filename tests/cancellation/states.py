"""What the subject of a sweep finds: the lock free, held, in company; a server that goes away, a lost answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiodlock.policy import Poll, Retry
from tests.cancellation.stage import SECTION, Stage
from tests.cancellation.wire import TRIP, Fault

__all__ = ["POLICIES", "STATES", "State"]


@dataclass(frozen=True, slots=True)
class State:
    """How a stage is set, and how long it takes at most until neighbours have gone and nothing of ours is left.

    With a healthy server that is a few round trips; a leave that found no server is repeated, with growing pauses.
    Neighbours end before the first look that would make up for a call that was lost.
    """

    prepare: Callable[[Stage], Awaitable[None]]
    soon: float = 0.5
    within: float = 0.02


async def _free(stage: Stage) -> None:
    pass


async def _elsewhere(stage: Stage) -> None:
    """Another client is inside for five sections."""
    entered = asyncio.Event()
    stay = stage.pass_through(stage.other_lock(), stay=5 * SECTION, entered=entered)
    stage.neighbour(stay, is_ours=False)
    await entered.wait()


async def _local(stage: Stage) -> None:
    """A task beside us is inside, and another comes after us."""
    await _enter_beside(stage)
    stage.neighbour(stage.pass_through(stage.lock(), after=SECTION / 2))


async def _company(stage: Stage) -> None:
    """A task beside us is inside, another client waits, another of our tasks comes after us."""
    await _enter_beside(stage)
    stage.neighbour(stage.pass_through(stage.other_lock()), is_ours=False)
    await asyncio.sleep(2 * TRIP)
    stage.neighbour(stage.pass_through(stage.lock(), after=SECTION / 2))


async def _enter_beside(stage: Stage) -> None:
    entered = asyncio.Event()
    stage.neighbour(stage.pass_through(stage.lock(wait=None), stay=3 * SECTION, entered=entered))
    await entered.wait()


async def _idle(stage: Stage) -> None:
    """We were here before; what lingers is still ours."""
    async with stage.lock(wait=None):
        pass


async def _overtaken(stage: Stage) -> None:
    """Calls are read before the answers that were sent before them."""
    await _elsewhere(stage)
    stage.wire.calls_overtake = True


async def _cut(stage: Stage) -> None:
    """The connection is lost while we wait."""
    await _elsewhere(stage)
    stage.later(4 * TRIP, stage.trouble.cut)


def _outage(begin: float) -> State:
    """The server goes away a while after the operation has begun, and comes back."""

    async def prepare(stage: Stage) -> None:
        stage.on_arm.append(lambda: stage.later(begin, stage.trouble.go_down))
        stage.on_arm.append(lambda: stage.later(0.06, stage.trouble.come_back))

    return State(prepare, within=2.0)


async def _silence(stage: Stage) -> None:
    """Nothing is answered for two seconds: longer than a waiting ticket goes without a look."""
    stage.trouble.fall_silent()
    stage.later(2.0, stage.trouble.come_back)


def _fault(verb: str, fault: Fault, then: Callable[[Stage], Awaitable[None]] = _free) -> State:
    async def prepare(stage: Stage) -> None:
        await then(stage)
        stage.trouble.harm(verb, fault)

    return State(prepare, within=2.0)


STATES: dict[str, State] = {
    "free": State(_free),
    "elsewhere": State(_elsewhere),
    "local": State(_local),
    "company": State(_company),
    "idle": State(_idle),
    "overtaken": State(_overtaken),
    "cut": State(_cut, within=2.0),
    "refused": _outage(0.0),
    "goes away": _outage(1.5 * TRIP),
    "silent": State(_silence, soon=3.0, within=2.0),
    "join unanswered": _fault("join", "drop reply"),
    "join lost": _fault("join", "drop request"),
    "join late": _fault("join", "late"),
    "join late, elsewhere": _fault("join", "late", _elsewhere),
    "join late, company": _fault("join", "late", _company),
    "leave unanswered": _fault("leave", "drop reply"),
    "leave lost": _fault("leave", "drop request"),
    "leave late": _fault("leave", "late"),
    "renew unanswered": _fault("renew", "drop reply"),
    "inspect unanswered": _fault("inspect", "drop reply"),
    "change unanswered": _fault("change", "drop reply"),
    "latch unanswered": _fault("latch", "drop reply"),
    "take unanswered": _fault("take", "drop reply"),
    "take lost": _fault("take", "drop request"),
    "take late": _fault("take", "late"),
    "restock unanswered": _fault("restock", "drop reply"),
    "put_back unanswered": _fault("put_back", "drop reply"),
    "confirm unanswered": _fault("confirm", "drop reply"),
    "open unanswered": _fault("open", "drop reply"),
}

POLICIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "limit": {"wait": 4 * SECTION},
    "lingering": {"linger": SECTION},
    "fair": {"fair": True},
    "fixed": {"renew": False},
    "capped": {"max_hold": 10.0},
    "polling": {"waiting": Poll(SECTION)},
    "retrying": {"waiting": Retry(50, SECTION)},
}
