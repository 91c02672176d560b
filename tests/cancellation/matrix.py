"""Which cells are swept by which plans: a short matrix for every run, the whole one where there is time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.cancellation.kinds import KINDS
from tests.cancellation.operations import OPERATIONS
from tests.cancellation.sweep import Cell
from tests.cancellation.trigger import Plan, Way

__all__ = ["ENTERING", "ONCE", "REPEATED", "STATED", "WAYS", "every_cell", "plain_cells", "short_cells"]

ONCE = [Plan("pending"), Plan("ready"), Plan("beat")]

# Further cancels during clean-up: at the next suspension, and a few callbacks later.
REPEATED = [
    *(Plan(how, ("cancel",) * n, (1,) * (n - 1)) for how in ("pending", "ready") for n in (2, 3)),
    *(Plan("beat", ("cancel", "cancel"), (gap,)) for gap in range(1, 7)),
    Plan("beat", ("cancel",) * 3, (1, 1)),
    Plan("beat", ("cancel",) * 3, (2, 3)),
]

_WAYS: tuple[Way, ...] = ("cancel", "scope", "timeout", "loss")

# Other ways to be struck, alone and two of them a few callbacks apart.
WAYS = [
    *(Plan(how, (way,)) for how in ("pending", "ready") for way in ("scope", "timeout")),
    *(Plan("beat", (way,)) for way in ("scope", "timeout", "loss")),
    *(Plan("beat", pair, (gap,)) for pair in itertools.permutations(_WAYS, 2) for gap in (1, 2, 4)),
]

# Those that are swept with every synchronizer.
ENTERING = (
    "block",
    "acquire_with_limit",
    "try_acquire",
    "release",
    "hold_block",
    "lost_block",
    "extend",
    "reenter",
    "wait_lost",
    "run",
    "locked",
    "holder",
    "force_release",
    "revoke",
    "aclose",
)
STATED = ("free", "elsewhere", "company")  # what most of the rest is swept in


def plain_cells() -> Iterator[Cell]:
    """Return every operation in each of its states, under its first policy and with its own synchronizers."""
    for name, operation in OPERATIONS.items():
        for state, kind in itertools.product(operation.states, operation.kinds):
            yield Cell(name, state, operation.policies[0], kind)


def short_cells() -> Iterator[Cell]:
    """Return those and, in company, every policy and every synchronizer beside the first."""
    yield from plain_cells()
    for name in ENTERING:
        operation = OPERATIONS[name]
        yield from (Cell(name, "company", policy) for policy in operation.policies[1:])
        yield from (Cell(name, "company", kind=kind) for kind in KINDS if kind not in operation.kinds)


def every_cell() -> Iterator[Cell]:
    """Return every operation in each state, under each policy; those that enter, with each synchronizer too."""
    for name, operation in OPERATIONS.items():
        for state, policy in itertools.product(operation.states, operation.policies):
            for kind in KINDS if name in ENTERING and policy in ("plain", "fair") else operation.kinds:
                yield Cell(name, state, policy, kind)
