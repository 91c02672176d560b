"""Histories: what many workers saw, recorded as JSON lines, and checkers that find what cannot have been right.

A checker returns its violations, so a test says ``assert check_exclusion(stays(events)) == []``. An empty history is
correct: a test also says how much it has to have seen.

====================  ======================================================================================
`check_exclusion`     those who believe to be inside never weigh more than the size (lock, rwlock, semaphore)
`check_fencing`       fences are unique and in order; `check_accepted`: a guarded resource's log never goes back
`check_conservation`  accepted - returned + left = loaded
`check_linearizable`  the operations fit one order that a sequential `Model` agrees with
====================  ======================================================================================
"""

from aiodlock.testing.history.conservation import check_conservation
from aiodlock.testing.history.exclusion import check_exclusion
from aiodlock.testing.history.fencing import check_accepted, check_fencing
from aiodlock.testing.history.linearizability import check_linearizable
from aiodlock.testing.history.models import Counter, Model, Stock, TryLock
from aiodlock.testing.history.operations import UNKNOWN, Operation, Outcome, operation, operations
from aiodlock.testing.history.record import Event, Json, JsonLines, Recorder, read
from aiodlock.testing.history.stays import Stay, stays
from aiodlock.testing.history.violation import Violation

__all__ = [
    "UNKNOWN",
    "Counter",
    "Event",
    "Json",
    "JsonLines",
    "Model",
    "Operation",
    "Outcome",
    "Recorder",
    "Stay",
    "Stock",
    "TryLock",
    "Violation",
    "check_accepted",
    "check_conservation",
    "check_exclusion",
    "check_fencing",
    "check_linearizable",
    "operation",
    "operations",
    "read",
    "stays",
]
