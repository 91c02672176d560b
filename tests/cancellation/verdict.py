"""How a coroutine may end, given what struck it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.cancellation.trigger import Trigger

__all__ = ["Outcome", "judge"]


@dataclass(slots=True)
class Outcome:
    """How the subject of one run ended."""

    ended_by: str = "end"  # or the error's name, or "scope"
    expired: bool = False  # whether the time limit around it had cancelled it
    cancelling: int = 0  # the task's count of cancel requests afterwards
    cancelled_later: bool = False  # whether a cancel arrived at an await after the end


def judge(outcome: Outcome, trigger: Trigger) -> Iterator[str]:
    """Say what is wrong with how a subject ended."""
    struck = ", ".join(trigger.struck) or "nothing"
    if outcome.ended_by not in _ends(outcome, trigger):
        yield f"swallowed: {outcome.ended_by} after {struck}" if trigger.struck else f"ended by {outcome.ended_by}"
    if outcome.cancelling != trigger.hits:
        yield f"miscounted: cancelling() is {outcome.cancelling} after {struck}"
    if outcome.cancelled_later:
        yield f"late: a cancel arrived after the end, after {struck}"


def _ends(outcome: Outcome, trigger: Trigger) -> set[str]:
    """Return how it may end. A cancel of the task wins over everything."""
    if trigger.hits:
        return {"CancelledError"}
    struck = set(trigger.struck)
    scope = {"scope"} & struck
    if outcome.expired:
        return {"TimeoutError"} | scope
    ends = {"end"} | scope  # a scope cancels at the next await, and there may be none
    if "loss" in struck:
        ends |= {"LockLostError"}
    if struck & {"one", "all"}:  # whoever cancels the client's own tasks makes its questions fail
        ends |= {"BackendError", "BackendUnavailableError", "ClientClosedError"}
    return ends
