"""The sweep: one operation in one state under one policy, struck at every point of one plan."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio

from tests.cancellation.kinds import KINDS
from tests.cancellation.operations import OPERATIONS, Operation
from tests.cancellation.stage import Stage, staged
from tests.cancellation.states import POLICIES, STATES
from tests.cancellation.trigger import BeatLoop, Plan, Trigger

__all__ = ["Cell", "Report", "sweep"]

MOST_POINTS = 2_000  # an operation with more never ends,
MOST_SECONDS = 60.0  # nor does one that takes longer


@dataclass(frozen=True, slots=True)
class Cell:
    """One operation, state, policy and synchronizer by name."""

    operation: str
    state: str
    policy: str = "plain"
    kind: str = "lock"

    def __str__(self) -> str:
        return f"{self.operation}-{self.state}-{self.policy}-{self.kind}".replace(" ", "_")


@dataclass(slots=True)
class Report:
    """What a sweep found: how many points were struck, and what was wrong after which of them."""

    points: int = 0
    faults: list[str] = field(default_factory=list)

    def count(self, word: str) -> int:
        return sum(word in fault for fault in self.faults)


@dataclass(slots=True)
class Outcome:
    """How the subject of one run ended, and whether the time limit around it had cancelled it."""

    ended_by: str
    expired: bool = False
    cancelling: int = 0
    later_cancel: bool = False


def sweep(cell: Cell, plans: Iterable[Plan], **settings: Any) -> Report:
    """Strike at every point of every plan, each time on a new stage."""
    report = Report()
    with asyncio.Runner(loop_factory=BeatLoop) as runner:
        for plan in plans:
            for at in range(1, MOST_POINTS):
                trigger = Trigger(plan, at)
                faults = runner.run(one_run(cell, trigger, **settings))
                report.faults += [f"{cell} {plan} at {at}: {fault}" for fault in faults]
                if not trigger.struck:
                    break
                report.points += 1
            else:
                report.faults.append(f"{cell} {plan}: never ends")
    return report


async def one_run(
    cell: Cell, trigger: Trigger, *, setup: Callable[[Stage], None] | None = None, **settings: Any
) -> list[str]:
    """Run the subject once; return what was wrong with how it ended and what it left."""
    random.seed(0)
    operation, state = OPERATIONS[cell.operation], STATES[cell.state]
    async with staged(KINDS[cell.kind], POLICIES[cell.policy], **settings) as stage:
        if setup is not None:
            setup(stage)
        await state.prepare(stage)
        subject = stage.loop.create_task(_subject(stage, operation, trigger))
        trigger.aim(subject, asyncio.current_task())
        if not (await asyncio.wait((subject,), timeout=MOST_SECONDS))[0]:
            stage.faults.append("never ends")
            trigger.disarm(stage.loop)
            subject.cancel()
        stage.faults += judge(await subject, trigger)
        await stage.settle(soon=state.soon, within=state.within)
    return stage.faults


async def _subject(stage: Stage, operation: Operation, trigger: Trigger) -> Outcome:
    task = asyncio.current_task()
    assert task is not None
    trigger.strike["loss"] = stage.lose
    stage.arm = lambda: trigger.arm(stage.loop)
    outcome = Outcome("end")
    try:
        await _within_scopes(stage, operation, trigger, outcome)
    except BaseException as error:
        outcome.ended_by = type(error).__name__
    outcome.cancelling = task.cancelling()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        outcome.later_cancel = True
    return outcome


async def _within_scopes(stage: Stage, operation: Operation, trigger: Trigger, outcome: Outcome) -> None:
    try:
        async with asyncio.timeout(None) as timeout:
            with anyio.CancelScope() as scope:
                trigger.strike |= {"scope": scope.cancel, "timeout": lambda: timeout.reschedule(stage.loop.time())}
                try:
                    if not operation.arms:
                        stage.arm()
                    await trigger.watch(operation.run(stage))
                finally:
                    trigger.disarm(stage.loop)
            if scope.cancelled_caught:
                outcome.ended_by = "scope"
    finally:
        outcome.expired = timeout.expired()


def judge(outcome: Outcome, trigger: Trigger) -> Iterable[str]:
    """Say what is wrong with how a subject ended, given what struck it."""
    if outcome.later_cancel:
        yield "a cancel came after the end"
    if outcome.cancelling != trigger.hits:
        yield f"cancelling() is {outcome.cancelling} after {trigger.struck}"
    if outcome.ended_by not in _ends(outcome, trigger):
        struck = trigger.struck
        yield f"swallowed: {outcome.ended_by} after {struck}" if struck else f"ended by {outcome.ended_by}"


def _ends(outcome: Outcome, trigger: Trigger) -> set[str]:
    """Return how a subject may end. A cancel of its task wins over everything; a scope cancels at the next await only,
    and there may be none; who cancels the client's own tasks makes its questions fail.
    """
    if trigger.hits:
        return {"CancelledError"}
    struck = trigger.struck
    scope = {"scope"} if "scope" in struck else set()
    if outcome.expired:
        return {"TimeoutError"} | scope
    lost = {"LockLostError"} if "loss" in struck else set()
    failed = {"ClientClosedError", "BackendUnavailableError", "BackendError"} if {"one", "all"} & set(struck) else set()
    return {"end"} | scope | lost | failed
