"""The sweep: one operation in one state under one policy, struck at every point of one plan."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio

from tests.cancellation.kinds import KINDS
from tests.cancellation.operations import OPERATIONS, Operation
from tests.cancellation.stage import Stage
from tests.cancellation.states import POLICIES, STATES
from tests.cancellation.trigger import BeatLoop, Plan, Trigger
from tests.cancellation.verdict import Outcome, judge

__all__ = ["Cell", "Report", "rehearse", "shut_down", "sweep"]

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
        return f"{self.operation}, {self.state}, {self.policy}, {self.kind}"


@dataclass(slots=True)
class Report:
    """What sweeps found: how many cells and points there were, and what was wrong after which of them."""

    cells: int = 0
    points: int = 0
    faults: list[str] = field(default_factory=list)

    def __iadd__(self, other: Report) -> Report:
        self.cells += other.cells
        self.points += other.points
        self.faults += other.faults
        return self

    def count(self, what: str) -> int:
        """Return how many of the faults are of one sort."""
        return sum(f": {what}" in fault for fault in self.faults)


def sweep(
    cell: Cell, plans: Iterable[Plan], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] = BeatLoop, **stage: Any
) -> Report:
    """Strike at every point of every plan, each time on a new stage."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return _at_every_point(cell, plans, lambda trigger: runner.run(_run(cell, trigger, **stage)))


def rehearse(cell: Cell) -> list[str]:
    """Run the operation once and strike nowhere; return what was wrong all the same."""
    with asyncio.Runner(loop_factory=BeatLoop) as runner:
        return runner.run(_run(cell, Trigger(Plan("beat"), MOST_POINTS)))


def shut_down(cell: Cell, plans: Iterable[Plan], *, closes: bool, **stage: Any) -> Report:
    """Sweep the main coroutine of a loop that ends with it; *closes*: main closes its client, as it should."""
    return _at_every_point(cell, plans, lambda trigger: _last_run(cell, trigger, closes=closes, **stage))


def _at_every_point(cell: Cell, plans: Iterable[Plan], run: Callable[[Trigger], list[str]]) -> Report:
    report = Report(cells=1)
    for plan in plans:
        for at in range(1, MOST_POINTS):
            trigger = Trigger(plan, at)
            report.faults += [f"{cell}; {plan} at {at}: {fault}" for fault in run(trigger)]
            if trigger.points < at:
                break
            report.points += bool(trigger.struck)
        else:
            report.faults.append(f"{cell}; {plan}: never ends")
    return report


async def _set_stage(cell: Cell, *, make: Callable[..., Stage] = Stage, **settings: Any) -> Stage:
    random.seed(0)
    stage = make(KINDS[cell.kind], POLICIES[cell.policy], **settings)
    await stage.open()
    await STATES[cell.state].prepare(stage)
    return stage


# --- in a loop that goes on --------------------------------------------------------------------------------------


async def _run(cell: Cell, trigger: Trigger, **settings: Any) -> list[str]:
    """Run the subject once; return what was wrong with how it ended and what it left."""
    state = STATES[cell.state]
    stage = await _set_stage(cell, **settings)
    try:
        subject = stage.loop.create_task(_subject(stage, OPERATIONS[cell.operation], trigger))
        trigger.aim(subject, {_current(), *stage.others})
        if not (await asyncio.wait((subject,), timeout=MOST_SECONDS))[0]:
            stage.faults.append("never ends")
            trigger.disarm()
            subject.cancel()
        stage.faults += judge(await subject, trigger)
        await stage.settle(soon=state.soon, within=state.within)
    finally:
        await stage.close()
    return stage.faults


async def _subject(stage: Stage, operation: Operation, trigger: Trigger) -> Outcome:
    outcome = Outcome()
    try:
        await _within_scopes(stage, operation, trigger, outcome)
    except BaseException as error:
        outcome.ended_by = type(error).__name__
    outcome.cancelling = _current().cancelling()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        outcome.cancelled_later = True
    return outcome


async def _within_scopes(stage: Stage, operation: Operation, trigger: Trigger, outcome: Outcome) -> None:
    timeout = asyncio.timeout(None)
    try:
        async with timeout:
            with anyio.CancelScope() as scope:
                trigger.strikes = {
                    "loss": stage.lose,
                    "scope": scope.cancel,
                    "timeout": lambda: timeout.reschedule(stage.loop.time()),
                }
                await _swept(stage, operation, trigger, operation.run(stage))
            if scope.cancelled_caught:
                outcome.ended_by = "scope"
    finally:
        outcome.expired = timeout.expired()


async def _swept(stage: Stage, operation: Operation, trigger: Trigger, work: Any) -> None:
    stage.on_arm.append(trigger.arm)
    if not operation.arms:
        stage.arm()
    try:
        await trigger.watch(work)
    finally:
        trigger.disarm()


# --- in a loop that ends right after -----------------------------------------------------------------------------


def _last_run(cell: Cell, trigger: Trigger, *, closes: bool, **settings: Any) -> list[str]:
    with asyncio.Runner(loop_factory=BeatLoop) as runner:
        stage = runner.run(_set_stage(cell, **settings))
        with suppress(asyncio.CancelledError):
            runner.run(_main(stage, OPERATIONS[cell.operation], trigger, closes=closes))
    stage.hang_up()
    stage.faults += [f"orphan: {row.key}" for row in stage.ours]
    return stage.faults + (stage.connections if closes else [])


async def _main(stage: Stage, operation: Operation, trigger: Trigger, *, closes: bool) -> None:
    async def main() -> None:
        try:
            await operation.run(stage)
        finally:
            if closes:
                await stage.locks.aclose()

    trigger.aim(_current(), stage.others)
    await _swept(stage, operation, trigger, main())


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
