"""Which cells are swept on real servers, and in a word why others are not."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cancellation.kinds import KINDS
from tests.cancellation.matrix import every_cell
from tests.cancellation.operations import OPERATIONS
from tests.cancellation.states import POLICIES
from tests.cancellation.sweep import Cell

__all__ = ["ON_SINGLE", "OPERATED", "SHORT", "cells", "lost_cells", "troubled_cells"]

OPERATED = sorted(OPERATIONS.keys() - {"control"})  # that one is nothing of ours

WELL = ("free", "elsewhere", "local", "company", "idle")  # whose network is well
NO_TROUBLE_OF_A_NETWORK = {
    "overtaken": "a connection keeps the order of answers and calls",
    "silent": "two seconds at each point are too long: tests/faults/redis/test_silence.py",
}

STOCK = {"take", "reserve", "restock"}
LACKS = {  # operations, synchronizers and policies that a topology refuses
    "redlock": {
        *(KINDS.keys() - {"lock", "read", "write", "multi", "election"}),
        *("count_down", "opened", "opened_too_late"),
        *STOCK,
        *("fair", "lingering"),  # a majority does not know who waits
    },
    "zookeeper": STOCK,
}
SLOW = ("zookeeper", "mysql")  # policies are the engine's, and swept on Redis

SHORT = [Cell("block", "free"), Cell("block", "elsewhere"), Cell("release", "free"), Cell("client_block", "free")]
# Where each policy and some synchronizers do something of their own.
ON_SINGLE = [
    *(Cell("block", "elsewhere", policy) for policy in POLICIES if policy not in ("plain", "lingering")),
    Cell("block", "idle", "lingering"),
    Cell("release", "company", "fair"),
    *(Cell("block", "elsewhere", kind=kind) for kind in ("read", "write", "semaphore")),
    Cell("release", "company", kind="semaphore"),
]


def cells(topology: str, operation: str) -> Iterator[Cell]:
    """Return every cell of *operation* that these servers know, and whose network is well."""
    lacks = LACKS.get(topology, set())
    for cell in every_cell():
        known = lacks.isdisjoint((cell.operation, cell.kind, cell.policy))
        if cell.operation == operation and cell.state in WELL and known and (topology not in SLOW or _is_short(cell)):
            yield cell


def lost_cells() -> list[Cell]:
    """Return those where a join or a leave is lost on its way, there or back, or comes late."""
    return [Cell("block", f"{verb} {how}") for verb in ("join", "leave") for how in ("unanswered", "lost", "late")]


def troubled_cells(operation: str) -> list[Cell]:
    """Return every cell of *operation* whose network is not well; with each policy, or with each synchronizer."""
    return [
        cell
        for cell in every_cell()
        if cell.operation == operation
        and cell.state not in (*WELL, *NO_TROUBLE_OF_A_NETWORK)
        and (cell.kind == "lock" or cell.policy == "plain")
    ]


def _is_short(cell: Cell) -> bool:
    """Return whether it has the first policy; and a state in which others than the lock do something of their own."""
    states = WELL if cell.kind == "lock" else WELL[:2]
    return cell.state in states and cell.policy == OPERATIONS[cell.operation].policies[0]
